package dashboard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Programs name tokens by ids, and find their limits here. A symbol is a text that its contract chose.
func TestTokensAreShownWithIdsAndLimits(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, role := range roles {
		body := h.get(h.signIn(h.one, role), Prefix+"/developers/tokens").
			want(t, http.StatusOK, "USDC", "Smallest deposit", "In use", "/v1/mints").body
		if strings.Contains(body, "<script>alert") {
			t.Errorf("%s: the symbol of a token is markup", role)
		}
	}
	h.get(h.signIn(h.one, identity.Finance), Prefix+"/developers/tokens.csv").
		want(t, http.StatusOK, "id,symbol,name,chain,contractAddress,decimals,minDepositAmount", "1,USDC")
	_, err := pgtest.OwnerPool(t, h.db).Exec(
		t.Context(), `UPDATE mints SET quarantined_at = now(), quarantine_reason = 'test' WHERE mint_id = $1`, usdc,
	)
	if err != nil {
		t.Fatal(err)
	}
	h.get(h.signIn(h.one, identity.Viewer), Prefix+"/developers/tokens").want(t, http.StatusOK, "Stopped")
}
