package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// maxListDepth is more than any list of lists that a person writes.
const maxListDepth = 8

// decoders reads the kinds that are used. Objects of other kinds are ignored.
var decoders = map[schema.GroupKind]func(*objects, []byte) error{
	{Group: modelDeploymentGroup, Kind: modelDeploymentKind}: func(o *objects, data []byte) error {
		return decodeObject(data, func(m *modelDeployment) *metav1.ObjectMeta { return &m.Metadata },
			func(k key, m *modelDeployment) { o.modelDeployments[k] = m.shape() })
	},
	{Kind: podKind}: func(o *objects, data []byte) error {
		return decodeObject(data, func(p *corev1.Pod) *metav1.ObjectMeta { return &p.ObjectMeta },
			func(k key, p *corev1.Pod) {
				// A Pod written by hand may have no UID. Its reads must not be taken for a sibling's.
				if p.UID == "" {
					p.UID = types.UID(p.Name)
				}
				o.pods[k] = newPod(p)
			})
	},
	{Group: appsv1.GroupName, Kind: replicaSetKind}: func(o *objects, data []byte) error {
		return decodeObject(data, func(m *metav1.PartialObjectMetadata) *metav1.ObjectMeta { return &m.ObjectMeta },
			func(k key, m *metav1.PartialObjectMetadata) { rs := newObject(&m.ObjectMeta); o.replicaSets[k] = &rs })
	},
	{Group: appsv1.GroupName, Kind: deploymentKind}: func(o *objects, data []byte) error {
		return decodeObject(data, func(m *metav1.PartialObjectMetadata) *metav1.ObjectMeta { return &m.ObjectMeta },
			func(k key, m *metav1.PartialObjectMetadata) { d := newObject(&m.ObjectMeta); o.deployments[k] = &d })
	},
}

// decodeObject decodes one object and keeps it. The same kind and name a second time replaces the first.
func decodeObject[T any](data []byte, meta func(*T) *metav1.ObjectMeta, keep func(key, *T)) error {
	v := new(T)
	// Names are matched as Kubernetes does, by case.
	err := kjson.Unmarshal(data, v)
	m := meta(v)
	if m.Namespace == "" {
		m.Namespace = metav1.NamespaceDefault
	}
	switch {
	case err != nil && m.Name != "":
		return fmt.Errorf("%s/%s: %w", m.Namespace, m.Name, err)
	case err != nil:
		return err
	case m.Name == "":
		return errors.New("metadata.name is missing")
	}
	keep(key{m.Namespace, m.Name}, v)
	return nil
}

// decode reads the manifests of one file: YAML documents, or JSON values one after the other. The
// error names the document and the object.
func decode(data []byte) (*objects, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if o, ok := decodeJSON(data); ok {
		return o, nil
	}
	o := newObjects()
	for i, doc := range split(data) {
		if err := o.addYAML(doc); err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
	}
	return o, nil
}

// decodeJSON reads JSON where the data is JSON from start to end and all in it is understood. It is
// the short way for what is large; everything else, with its errors, is left to YAML, which includes JSON.
func decodeJSON(data []byte) (*objects, bool) {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return nil, false
	}
	o := newObjects()
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var value json.RawMessage
		switch err := dec.Decode(&value); {
		case errors.Is(err, io.EOF):
			return o, true
		case err != nil || o.add(value, metav1.TypeMeta{}, 0) != nil:
			return nil, false
		}
	}
}

// document is one YAML document of a file.
type document struct {
	text []byte
	line int // of the file, from 0
}

// split cuts a file at its document markers. Documents of blank lines, comments and directives alone
// are left out.
func split(data []byte) []document {
	var (
		docs    []document
		start   int // of the document, in data
		line    int
		begun   int // the document's line
		content bool
	)
	end := func(at int) {
		if content {
			docs = append(docs, document{data[start:at], begun})
		}
		content = false
	}
	for at := 0; at < len(data); line++ {
		next := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			next = at + i + 1
		}
		text := bytes.TrimRight(data[at:next], " \t\r\n")
		switch {
		case isMarker(text, "---"):
			end(at)
			start, begun = at, line
			text = bytes.TrimLeft(text[len("---"):], " \t")
			content = len(text) > 0 && text[0] != '#'
		case isMarker(text, "..."):
			end(at)
			start, begun = next, line+1
		case content:
		case len(text) > 0 && text[0] == '%':
			start, begun = next, line+1
		default:
			text = bytes.TrimLeft(text, " \t")
			content = len(text) > 0 && text[0] != '#'
		}
		at = next
	}
	end(len(data))
	return docs
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

func (o *objects) addYAML(doc document) error {
	value, err := yaml.YAMLToJSON(doc.text)
	if err != nil {
		// Once more with the lines above it, so that the error counts lines as the file does.
		if _, again := yaml.YAMLToJSON(append(bytes.Repeat([]byte("\n"), doc.line), doc.text...)); again != nil {
			err = again
		}
		return err
	}
	return o.add(value, metav1.TypeMeta{}, 0)
}

// add adds one JSON value: an object, or a list of them whose own kind stands in where an item has none.
func (o *objects) add(data []byte, standIn metav1.TypeMeta, depth int) error {
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	if len(data) == 0 || data[0] != '{' {
		return errors.New("not a Kubernetes object")
	}
	var t metav1.TypeMeta
	if err := kjson.Unmarshal(data, &t); err != nil {
		return err
	}
	if t.Kind == "" {
		t.Kind = standIn.Kind
	}
	if t.APIVersion == "" {
		t.APIVersion = standIn.APIVersion
	}
	if t.Kind == "" {
		return errors.New("not a Kubernetes object: kind is missing")
	}
	o.documents++
	gk := t.GroupVersionKind().GroupKind()
	if decodeKind, ok := decoders[gk]; ok {
		if err := decodeKind(o, data); err != nil {
			return fmt.Errorf("%s %w", t.Kind, err)
		}
		return nil
	}

	item, isList := strings.CutSuffix(gk.Kind, "List")
	switch {
	case !isList:
		return nil
	case item == "" && gk.Group == "":
		standIn = metav1.TypeMeta{} // each item names its own
	case decoders[schema.GroupKind{Group: gk.Group, Kind: item}] != nil:
		standIn = metav1.TypeMeta{Kind: item, APIVersion: t.APIVersion}
	default:
		return nil
	}
	if depth == maxListDepth {
		return fmt.Errorf("more than %d lists within each other", maxListDepth)
	}
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := kjson.Unmarshal(data, &list); err != nil {
		return fmt.Errorf("%s %w", t.Kind, err)
	}
	for i, value := range list.Items {
		if err := o.add(value, standIn, depth+1); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return nil
}
