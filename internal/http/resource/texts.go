package resource

import (
	"maps"
	"reflect"

	"github.com/cofferpay/coffer/webhook"
)

// NothingWritten is a sentence of the examples of refusals.
const NothingWritten = " Nothing was changed and no money moved."

// SchemaNames has the names of types that differ in the documents.
var SchemaNames = map[reflect.Type]string{reflect.TypeFor[webhook.Mint](): "EmbeddedMint"}

// WithOwn joins texts that all surfaces share with those of one surface, which take precedence.
func WithOwn[K comparable, V any](shared, texts map[K]V) map[K]V {
	joined := maps.Clone(shared)
	maps.Copy(joined, texts)
	return joined
}
