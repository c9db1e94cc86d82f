package cluster

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tokenLife is the life of a ServiceAccount token: longer than any test.
const tokenLife = 2 * time.Hour

// CreateNamespace makes a namespace unless it is there. No controller would end its deletion: a test
// takes a name of its own.
func (c *Cluster) CreateNamespace(t testing.TB, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := c.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// CreateServiceAccount makes a ServiceAccount, bound to nothing, unless it is there.
func (c *Cluster) CreateServiceAccount(t testing.TB, namespace, name string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	_, err := c.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// Grant gives a ServiceAccount the rules in every namespace, as a ClusterRole of its own. Those
// that the API server ships with are no help here: "view" and its like are empty, because the
// controller that fills them does not run.
func (c *Cluster) Grant(t testing.TB, namespace, account string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	name := metav1.ObjectMeta{GenerateName: account + "-"}
	role, err := c.Kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: name, Rules: rules}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: name,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// Token asks the API server for a token of a ServiceAccount.
func (c *Cluster) Token(t testing.TB, namespace, name string) string {
	t.Helper()
	seconds := int64(tokenLife.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := c.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), name, request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token
}

// KubeconfigFor writes a kubeconfig with which a program is the ServiceAccount and nobody else.
func (c *Cluster) KubeconfigFor(t testing.TB, namespace, name string) string {
	t.Helper()
	config := c.API.AdminConfig()
	config.BearerToken = c.Token(t, namespace, name)
	return c.writeKubeconfig(t, config)
}
