package apiserver

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/md-exporter/md-exporter/normalize"
)

// retrySeconds is how long a client that was refused had better wait.
const retrySeconds = 1

// tooManyRequests is the Status of a request beyond the limit.
func tooManyRequests(limit int) error {
	return apierrors.NewTooManyRequests(
		fmt.Sprintf("%d requests are reading Pods, as many as may at once", limit), retrySeconds)
}

// notFound is the Status of a deployment that the fleet does not have.
func notFound(deployments schema.GroupResource, name string) error {
	return apierrors.NewNotFound(deployments, name)
}

// notSynced is the Status before the fleet is known whole: what is not known then may exist.
func notSynced() error {
	return apierrors.NewServiceUnavailable("the cluster's model deployments are not known yet: ask again in some seconds")
}

// unavailable is the Status of a deployment of which no Pod could be read. The message counts the
// reasons, the causes are the snapshot's missing entries.
func unavailable(deployments schema.GroupResource, s *normalize.Snapshot) error {
	causes := make([]metav1.StatusCause, len(s.Missing))
	var order []normalize.Reason
	counts := map[normalize.Reason]int{}
	for i, m := range s.Missing {
		causes[i] = metav1.StatusCause{Type: metav1.CauseType(m.Reason), Message: m.Reason.Sentence(), Field: m.Source}
		if m.Pod != "" {
			causes[i].Field += "/" + m.Pod
		}
		if counts[m.Reason]++; counts[m.Reason] == 1 {
			order = append(order, m.Reason)
		}
	}
	reasons := make([]string, len(order))
	for i, reason := range order {
		reasons[i] = fmt.Sprintf("%d × %s", counts[reason], reason)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusServiceUnavailable,
		Reason: metav1.StatusReasonServiceUnavailable,
		Message: fmt.Sprintf("no Pod of model deployment %s/%s could be read: %s",
			s.Deployment.Namespace, s.Deployment.Name, strings.Join(reasons, ", ")),
		Details: &metav1.StatusDetails{
			Name: s.Deployment.Name, Group: deployments.Group, Kind: deployments.Resource,
			UID: types.UID(s.Deployment.UID), Causes: causes,
		},
	}}
}
