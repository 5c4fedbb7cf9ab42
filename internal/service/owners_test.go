package service

import (
	"crypto/ed25519"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/wallet"
)

// The test changes wallet.Purposes, so it is not parallel: it ends before parallel tests go on.
func TestAServiceDoesNotStartWhileAPurposeOfWalletsHasNoOwner(t *testing.T) {
	build := func() (problem any) {
		defer func() { problem = recover() }()
		New(Config{}, Parts{AttestKey: make([]byte, ed25519.PublicKeySize), Log: slog.New(slog.DiscardHandler)})
		return nil
	}
	if problem := build(); problem != nil {
		t.Fatalf("every purpose has an owner: got %v", problem)
	}
	known := wallet.Purposes
	t.Cleanup(func() { wallet.Purposes = known })
	wallet.Purposes = append(slices.Clone(known), "SWAP_ELSEWHERE")
	if text, _ := build().(string); !strings.Contains(text, "SWAP_ELSEWHERE") {
		t.Errorf("a purpose without an owner: got %q, want a panic that names it", text)
	}
}
