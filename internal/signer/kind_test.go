package signer

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declaredPurposes returns the constants of type Purpose, as the source declares them.
func declaredPurposes(t *testing.T) (purposes []Purpose) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "signer.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			value := spec.(*ast.ValueSpec)
			if name, ok := value.Type.(*ast.Ident); !ok || name.Name != "Purpose" {
				continue
			}
			for _, v := range value.Values {
				word, err := strconv.Unquote(v.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatal(err)
				}
				purposes = append(purposes, Purpose(word))
			}
		}
	}
	if len(purposes) == 0 {
		t.Fatal("signer.go declares no purposes")
	}
	return purposes
}

func TestEveryPurposeHasOneKind(t *testing.T) {
	t.Parallel()
	purposes := declaredPurposes(t)
	for _, p := range purposes {
		if k := (Intent{Purpose: p}).Kind(); k.Purpose != p {
			t.Errorf("%s has no kind", p)
		}
	}
	var seen []Purpose
	for _, k := range Kinds() {
		if !slices.Contains(purposes, k.Purpose) || slices.Contains(seen, k.Purpose) {
			t.Errorf("%s: the kind is of no purpose, or is listed twice", k.Purpose)
		}
		seen = append(seen, k.Purpose)
		if !slices.Contains([]Source{FromTreasury, FromOther, FromDeposit}, k.Source) {
			t.Errorf("%s: %q is no source", k.Purpose, k.Source)
		}
		payees := []Payee{
			ToAnyone, ToTreasury, ToWallet, ToChangeWallet, ToNonceAccount, ToSharedWallet, ToPayouts, ToProvider,
		}
		if !slices.Contains(payees, k.Payee) {
			t.Errorf("%s: %q is no payee", k.Purpose, k.Payee)
		}
		if k.Noun == "" || !strings.Contains(k.WalletRule, "%[1]s") {
			t.Errorf("%s: its refusals name no intent", k.Purpose)
		}
		// An address outside is paid only with a grant; all limits of payments rest on the payee.
		if k.NeedsGrant != (Intent{Purpose: k.Purpose}).LeavesInstallation() {
			t.Errorf("%s: got NeedsGrant %v for payee %s", k.Purpose, k.NeedsGrant, k.Payee)
		}
	}
	if k := (Intent{Purpose: "GIFT"}).Kind(); k != (Kind{}) {
		t.Errorf("an unknown purpose has kind %+v", k)
	}
}

// A kind without an entry would be paid without people, or never. Rule SA-1.
func TestEveryKindSaysWhetherPeopleSignIt(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		wanted := PeopleNever
		if kind.Payee == ToAnyone {
			wanted = PeopleByRule
		}
		if kind.People != wanted {
			t.Errorf("%s: got %q, want %q for a payee of class %s", kind.Purpose, kind.People, wanted, kind.Payee)
		}
	}
}
