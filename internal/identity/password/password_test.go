package password

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/seal"
)

var cheap = Params{MemoryKiB: 8, Passes: 1}

// Rule SIGN-3.
func TestAPasswordIsLongAndUncommon(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"correct horse": true, strings.Repeat("x", 12): true, strings.Repeat("x", 128): true,
		strings.Repeat("\u00e4", 128): true, "passwort mit \u00e4": true,
		"": false, strings.Repeat("x", 11): false, strings.Repeat("x", 129): false, strings.Repeat("x", 1<<20): false,
		"password1234": false, "PassWord1234": false, "\uff50assword1234": false,
		"\ufdfa":           true, // one ligature, 18 characters after NFKC
		"correct\x00horse": false, "correct horse\xff": false, "a\u0301" + strings.Repeat("x", 10): false,
	} {
		err := Check(seal.NewSecret(text), "password")
		if (err == nil) != want {
			t.Errorf("%.30q: got %v, want accepted %v", text, err, want)
		}
		if f := fault.Find(err); err != nil && (f == nil || f.Param != "password" || f.Code != fault.InvalidRequest) {
			t.Errorf("%.30q: got %+v, want an invalid password", text, f)
		}
	}
	if got := len(loadCommon()); got < 19_000 {
		t.Errorf("got %d common passwords, want the whole list", got)
	}
}

// Rules SIGN-1 and SIGN-3.
func TestAHashVerifiesOnePassword(t *testing.T) {
	t.Parallel()
	h, ctx := NewHasher(cheap), t.Context()
	hash, err := h.Hash(ctx, seal.NewSecret("p\u00e4ssword of ann"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=8,t=1,p=1$") {
		t.Errorf("got %v, want a PHC string", hash)
	}
	again, err := h.Hash(ctx, seal.NewSecret("p\u00e4ssword of ann"))
	if err != nil || again == hash {
		t.Errorf("got the same hash twice (%v), want another salt", err)
	}
	// The costs are those of the hash, so that they can rise later.
	stronger := NewHasher(Params{MemoryKiB: 16, Passes: 2})
	for text, want := range map[string]bool{
		"p\u00e4ssword of ann": true, "pa\u0308ssword of ann": true, "p\u00e4ssword of Ann": false, "": false,
		strings.Repeat("p", 1<<20): false,
	} {
		for _, hasher := range []*Hasher{h, stronger} {
			if got, err := hasher.Verify(ctx, hash, seal.NewSecret(text)); err != nil || got != want {
				t.Errorf("%.20q: got %v %v, want %v", text, got, err, want)
			}
		}
	}
	before := h.Count()
	if got, err := h.Verify(ctx, "", seal.NewSecret("anything")); err != nil || got || h.Count() != before+1 {
		t.Errorf("an unknown account: got %v %v and %d hashes, want false and one hash", got, err, h.Count()-before)
	}
	for _, damaged := range []string{
		"x", hash[:20], hash + "x", strings.Replace(hash, "m=8", "m=99999999", 1), strings.Replace(hash, "t=1", "t=9999", 1),
		strings.Replace(hash, "p=1", "p=0", 1), strings.Replace(hash, "argon2id", "argon2i", 1),
	} {
		if got, err := h.Verify(ctx, damaged, seal.NewSecret("p\u00e4ssword of ann")); err == nil || got {
			t.Errorf("%q: got %v %v, want an error", damaged, got, err)
		}
	}
}

// Rule SIGN-3: four are computed at a moment, others wait two seconds and are then refused as
// unavailable.
func TestFewHashesAreComputedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := NewHasher(cheap)
		if cap(h.slots) != 4 {
			t.Errorf("got %d at once, want 4", cap(h.slots))
		}
		for range 4 {
			h.slots <- struct{}{} // four slow computations
		}
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				began := time.Now()
				_, err := h.Verify(t.Context(), "", seal.NewSecret(fmt.Sprint("password ", i)))
				if f := fault.Find(err); f == nil || f.Kind != fault.Unavailable || time.Since(began) != 2*time.Second {
					t.Errorf("got %v after %v, want unavailable after two seconds", err, time.Since(began))
				}
			})
		}
		wg.Wait()
		wg.Go(func() {
			if _, err := h.Hash(t.Context(), seal.NewSecret("waits a second")); err != nil {
				t.Errorf("got %v, want its turn", err)
			}
		})
		time.Sleep(time.Second)
		<-h.slots
		wg.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		h.slots <- struct{}{}
		cancel()
		if _, err := h.Hash(ctx, seal.NewSecret("no turn")); err == nil {
			t.Error("got a hash after the end of the context")
		}
	})
}
