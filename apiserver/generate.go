package apiserver

//go:generate go run k8s.io/code-generator/cmd/deepcopy-gen@v0.37.2 --go-header-file=/dev/null --output-file=zz_generated.deepcopy.go ./v1
//go:generate go run k8s.io/kube-openapi/cmd/openapi-gen@v0.0.0-20260721132016-d427ff9ee9ad --go-header-file=/dev/null --output-file=zz_generated.openapi.go --output-model-name-file=zz_generated.model_name.go --output-dir=. --output-pkg=github.com/md-exporter/md-exporter/apiserver --report-filename=/dev/null ./v1 k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version
