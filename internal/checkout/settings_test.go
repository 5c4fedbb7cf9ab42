package checkout_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Of changes that saw the same settings one counts, also of the first ones. Rule PAGE-87.
func TestOneOfManyChangesOfTheSameSettingsCounts(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	for seen := range int64(3) {
		var wg sync.WaitGroup
		errs := make([]error, 6)
		for i := range errs {
			wg.Go(func() {
				_, errs[i] = e.service.SaveSettings(t.Context(), e.one, checkout.SettingsDraft{
					ShopName: "Shop " + strconv.FormatInt(seen, 10) + " " + strconv.Itoa(i), UnderUSD: "0.50",
					CostMaxBps: 1 + i, SeenVersion: seen,
				}, audit.APIKey(e.one))
			})
		}
		wg.Wait()
		saved := -1
		for i, err := range errs {
			switch {
			case err == nil && saved < 0:
				saved = i
			case !fault.HasCode(err, fault.InvalidState):
				t.Errorf("change %d of version %d: got %v, want one change and refusals", i, seen, err)
			}
		}
		got, err := e.service.LoadSettings(t.Context(), e.one)
		want := checkout.Settings{
			Version: seen + 1, ShopName: "Shop " + strconv.FormatInt(seen, 10) + " " + strconv.Itoa(saved),
			UnderUSD: money.MustParseUSD("0.5"), CostMaxBps: 1 + saved,
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	if n := e.countRows(`SELECT count(*) FROM audit_log WHERE action = 'checkout_settings.changed'`); n != 3 {
		t.Errorf("got %d rows in the audit log, want one for each version", n)
	}
	if other, err := e.service.LoadSettings(t.Context(), e.two); err != nil || other.Version != 0 {
		t.Errorf("got %+v, %v, want the defaults of another organization", other, err)
	}
}

// An organization lists origins with https, each once and at most ten, and nothing that would be another directive of
// the policy. The database refuses the rest as well. Rule CO-119.
func TestOnlyOriginsEmbedThePage(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	save := func(origins string) (checkout.Settings, error) {
		settings, err := e.service.LoadSettings(t.Context(), e.one)
		if err != nil {
			t.Fatal(err)
		}
		return e.service.SaveSettings(t.Context(), e.one, checkout.SettingsDraft{
			UnderUSD: "0", CostMaxBps: 300, EmbedOrigins: origins, SeenVersion: settings.Version,
		}, audit.APIKey(e.one))
	}
	many := func(n int) string {
		var origins []string
		for i := range n {
			origins = append(origins, "https://shop"+strconv.Itoa(i)+".example")
		}
		return strings.Join(origins, " ")
	}
	for _, bad := range []string{
		"http://shop.example", "shop.example", "https://", "https://*.example", "*", "'self'", "https:", "data:",
		"https://shop.example/path", "https://shop.example?x", "https://shop.example;script-src",
		"https://a@shop.example",
		"https://shop.example:0", "https://shop.example:123456", "https://shop..example", "https://-shop.example",
		"https://münchen.example", "javascript:alert(1)", "https://shop.example,https://x.example",
		"https://" + strings.Repeat("a.", 120) + "example", many(11),
	} {
		_, err := save(bad)
		if f := fault.Find(err); f == nil || f.Code != fault.InvalidRequest || f.Param != "embedOrigins" {
			t.Errorf("%s: got %v, want a refusal", bad, err)
		}
	}
	got, err := save(" HTTPS://Shop.example:443/\r\nhttps://shop.example\thttps://b.example:8443 ")
	want := []string{"https://shop.example", "https://b.example:8443"}
	if err != nil || !slices.Equal(got.EmbedOrigins, want) || got.Version != 1 {
		t.Errorf("got %+v, %v, want %q", got, err, want)
	}
	if again, err := save("https://shop.example https://b.example:8443"); err != nil || again.Version != 1 {
		t.Errorf("got version %d, %v for the same again, want nothing written", again.Version, err)
	}
	stored, err := e.service.LoadSettings(t.Context(), e.one)
	if err != nil || !slices.Equal(stored.EmbedOrigins, want) {
		t.Errorf("got %q, %v, want %q", stored.EmbedOrigins, err, want)
	}
	if got, err := save(many(10)); err != nil || len(got.EmbedOrigins) != 10 {
		t.Errorf("got %q, %v, want ten", got.EmbedOrigins, err)
	}
	if got, err := save(""); err != nil || got.EmbedOrigins != nil || got.Version != 3 {
		t.Errorf("got %+v, %v, want none", got, err)
	}
	const local = "http://localhost:3000"
	if !checkout.IsEmbedOrigin(local, true) || checkout.IsEmbedOrigin(local, false) {
		t.Error("got http embedded outside of a local network, or not in one")
	}
	owner := pgtest.OwnerPool(t, e.db)
	for _, bad := range []string{
		`'{"https://a.example; script-src *"}'`, `'{http}'`, `'{"https://a.example https://b.example"}'`, `'{NULL}'`,
		`'{""}'`, `string_to_array('` + strings.ReplaceAll(many(11), " ", ",") + `', ',')`,
	} {
		_, err := owner.Exec(t.Context(), `UPDATE checkout_settings SET version = version + 1, embed_origins = `+bad)
		if !pg.ViolatesConstraint(err, "checkout_settings_embedding") {
			t.Errorf("%s: got %v, want a refusal of the database", bad, err)
		}
	}
}
