package pages

import (
	"bytes"
	"net/http/httptest"
	"testing"
)

// The terms of a form are its values on its own page: another balance is shown at another path, and the
// options of a passkey belong to the same form. Rule PAGE-15.
func TestTermsBelongToThePageThatShowsThem(t *testing.T) {
	t.Parallel()
	page := Page{Path: "/withdraw/{product}/{mintId}/confirm"}
	digest := func(path, amount string) []byte {
		r := &Request{
			Request: httptest.NewRequest("POST", path, nil), page: page, Values: map[string]string{"amount": amount},
		}
		return r.TermsDigest()
	}
	first := digest("/withdraw/CHECKOUT/1/confirm/request", "7")
	if got := digest("/withdraw/CHECKOUT/1/confirm/request/options", "7"); !bytes.Equal(got, first) {
		t.Error("the options of a form have other terms than the form")
	}
	for name, other := range map[string][]byte{
		"another mint":    digest("/withdraw/CHECKOUT/2/confirm/request", "7"),
		"another product": digest("/withdraw/CUSTODIAL/1/confirm/request", "7"),
		"another amount":  digest("/withdraw/CHECKOUT/1/confirm/request", "8"),
	} {
		if bytes.Equal(other, first) {
			t.Errorf("%s has the same terms", name)
		}
	}
}
