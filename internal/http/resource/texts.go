package resource

import (
	"maps"
	"reflect"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// NothingWritten is a sentence of the examples of refusals.
const NothingWritten = " Nothing was changed and no money moved."

const (
	amountPattern  = `^(0|[1-9][0-9]{0,77})$`
	DecimalPattern = `^(0|[1-9][0-9]*)(\.[0-9]+)?$`
)

// AmountDoc returns the text about an amount.
func AmountDoc(text string) kernel.FieldDoc {
	return kernel.FieldDoc{Text: text, Pattern: amountPattern, Example: "5000000"}
}

// SchemaNames has the names of types that differ in the documents.
var SchemaNames = map[reflect.Type]string{reflect.TypeFor[webhook.Mint](): "EmbeddedMint"}

// WithFieldDocs joins the texts of a surface with those that all surfaces share. A surface's own
// text takes precedence.
func WithFieldDocs(texts ...map[string]kernel.FieldDoc) map[string]kernel.FieldDoc {
	joined := maps.Clone(FieldDocs)
	maps.Copy(joined, kernel.MergeMaps(texts...))
	return joined
}

// WithProblems joins the texts of a surface about refusals with those that all surfaces share. A
// surface's own text takes precedence.
func WithProblems(texts map[fault.Code]kernel.ProblemDoc) map[fault.Code]kernel.ProblemDoc {
	joined := maps.Clone(Problems)
	maps.Copy(joined, texts)
	return joined
}
