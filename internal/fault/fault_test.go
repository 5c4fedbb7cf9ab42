package fault

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"
)

func TestTheListOfCodesIsComplete(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []Code
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Code" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, Code(text))
		}
		return true
	})
	if len(declared) == 0 || !slices.Equal(declared, Codes) {
		t.Errorf("got the list %v, want the declared codes %v", Codes, declared)
	}
}

func TestMissingWordsAreFound(t *testing.T) {
	t.Parallel()
	w := Words{
		Effects: map[Effect]string{}, Steps: map[Step]string{}, Codes: map[Code]string{},
	}
	for e := NothingWritten; e < effectsEnd; e++ {
		w.Effects[e] = "x"
	}
	for s := NoStep; s < stepsEnd; s++ {
		w.Steps[s] = "x"
	}
	for _, c := range Codes {
		w.Codes[c] = "x"
	}
	if e, s, c := w.Missing(); len(e)+len(s)+len(c) > 0 {
		t.Errorf("got %v, %v and %v missing, want none", e, s, c)
	}
	delete(w.Effects, StillHeld)
	delete(w.Steps, ListMints)
	w.Codes[RateLimited] = ""
	e, s, c := w.Missing()
	if !slices.Equal(e, []Effect{StillHeld}) || !slices.Equal(s, []Step{ListMints}) ||
		!slices.Equal(c, []Code{RateLimited}) {
		t.Errorf("got %v, %v and %v missing, want what was removed", e, s, c)
	}
}

func TestSentencesSayWhyWhatHappenedAndWhatToDo(t *testing.T) {
	t.Parallel()
	w := Words{
		Effects: map[Effect]string{NothingHeld: "Nothing was held.", Stated: ""},
		Steps:   map[Step]string{NoStep: "", ShowOrder: "Look at %s."},
		Codes:   map[Code]string{InvalidState: "Decide again."},
	}
	for _, c := range []struct {
		f    *Fault
		want string
	}{
		{New(Conflict, InvalidState, NothingHeld, "It is %s.", "late"), "It is late. Nothing was held. Decide " +
			"again."},
		{
			New(Conflict, InvalidState, NothingHeld, "It is late.").WithAdvice("Wait %d s.", 3),
			"It is late. Nothing was held. Wait 3 s.",
		},
		{
			New(Conflict, InvalidState, NothingHeld, "It is late.").WithStep(ShowOrder).WithSubject("wd_1").
				WithAdvice("Then wait."),
			"It is late. Nothing was held. Look at wd_1. Then wait.",
		},
		{New(Conflict, InvalidState, Stated, "It is late, and nothing was held."), "It is late, and nothing was " +
			"held."},
	} {
		if got := w.Sentences(c.f); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
