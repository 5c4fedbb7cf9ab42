package app

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

// bare is a valid configuration without anything that only some roles need.
func bare(roles ...Role) Config {
	c := newSoundConfig()
	c.Roles = roles
	c.Keys, c.Signer = Keys{Attest: "/keys/attest.pub"}, Signer{}
	c.Database.URL, c.API, c.Ops = "", API{}, Ops{}
	changeChain(&c, func(ch *Chain) { ch.Endpoints, ch.Agree = nil, 0 })
	return c
}

// settings returns the settings that an error names, sorted.
func settings(err error) []string {
	if err == nil {
		return nil
	}
	names := map[string]bool{}
	for line := range strings.Lines(err.Error()) {
		name, _, _ := strings.Cut(line, ": ")
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func TestEachRoleIsToldWhatItLacksAndNoMore(t *testing.T) {
	t.Parallel()
	endpoints := []string{"chains.ETHEREUM.agree", "chains.ETHEREUM.endpoints"}
	every := []string{"database.url", "ops.listen", "signer.socket"}
	seed := []string{"keys.approvals", "signer.journal", "signer.policy", "signer.seed", "signer.wrap"}
	for _, c := range []struct {
		roles []Role
		want  [][]string
	}{
		{[]Role{RoleAPI}, [][]string{
			every, {"api.listen", "api.url", "keys.approvals", "keys.cursor", "keys.seal", "keys.webhook_public"},
		}},
		{[]Role{RoleApprovals}, [][]string{every, {"approvals.origin", "keys.approvals", "keys.cursor", "keys.seal"}}},
		{[]Role{RoleWorkers}, [][]string{every, endpoints, {"keys.approvals", "keys.seal", "keys.webhook"}}},
		{[]Role{RoleScan}, [][]string{every, endpoints}},
		{[]Role{RoleDispatch}, [][]string{every, endpoints}},
		{[]Role{RoleSigner}, [][]string{seed}},
		{[]Role{RoleScan, RoleSigner}, [][]string{{"database.url", "ops.listen"}, endpoints, seed}},
		{[]Role{RoleAPI, RoleDispatch}, [][]string{
			every, endpoints,
			{"api.listen", "api.url", "keys.approvals", "keys.cursor", "keys.seal", "keys.webhook_public"},
		}},
		{nil, [][]string{
			{"api.listen", "api.url", "database.url", "keys.cursor", "keys.seal", "keys.webhook", "ops.listen"},
			endpoints, seed,
		}},
	} {
		want := slices.Sorted(slices.Values(slices.Concat(c.want...)))
		if got := settings(bare(c.roles...).Check()); !slices.Equal(got, want) {
			t.Errorf("%v: got %v, want %v", c.roles, got, want)
		}
	}
	if _, err := ParseRoles("api,wrokers"); err == nil || !strings.Contains(err.Error(), "workers, scan") {
		t.Errorf("got %v, want the roles that there are", err)
	}
	if got, err := ParseRoles("api, scan,api"); err != nil || !slices.Equal(got, []Role{RoleAPI, RoleScan}) {
		t.Errorf("got %v %v, want each once", got, err)
	}
	c := newSoundConfig()
	c.Roles = []Role{"cook"}
	if got := settings(c.Check()); !slices.Contains(got, "roles") {
		t.Errorf("got %v, want the role told", got)
	}
}

func TestASignerElsewhereIsNamedWholly(t *testing.T) {
	t.Parallel()
	pin := "sha256/" + strings.Repeat("A", 43) + "="
	for name, c := range map[string]struct {
		role   Role
		signer Signer
		want   []string
	}{
		"a socket": {RoleDispatch, Signer{Socket: "/run/s"}, nil},
		"both": {
			RoleDispatch, Signer{Socket: "/run/s", Address: "signer:1"}, []string{"signer.address"},
		},
		"an address": {
			RoleDispatch, Signer{Address: "signer:1", TLS: SignerTLS{Certificate: "c", Key: "k", CA: "ca"}}, nil,
		},
		"an address with a pin": {
			RoleDispatch, Signer{Address: "signer:1", TLS: SignerTLS{Certificate: "c", Key: "k", Pin: pin}}, nil,
		},
		"an address without TLS": {
			RoleDispatch,
			Signer{Address: "signer"},
			[]string{"signer.address", "signer.tls.ca", "signer.tls.certificate", "signer.tls.key"},
		},
		"a pin and an authority": {
			RoleDispatch,
			Signer{Address: "signer:1", TLS: SignerTLS{Certificate: "c", Key: "k", CA: "ca", Pin: pin}},
			[]string{"signer.tls.pin"},
		},
		"a pin that is none": {
			RoleDispatch,
			Signer{Address: "signer:1", TLS: SignerTLS{Certificate: "c", Key: "k", Pin: "sha256/x"}},
			[]string{"signer.tls.pin"},
		},
		"a listener without TLS": {
			RoleSigner,
			Signer{Serve: SignerServe{Listen: ":1"}},
			[]string{"signer.serve.certificate", "signer.serve.clients", "signer.serve.key"},
		},
		"clients and no listener": {
			RoleSigner,
			Signer{Serve: SignerServe{Clients: []SignerClient{{Name: "a", Permission: "PAY"}}}},
			[]string{"signer.serve.listen"},
		},
		"a client nobody knows": {RoleSigner, Signer{Serve: SignerServe{
			Listen: ":1", Certificate: "c", Key: "k", Clients: []SignerClient{{Name: "a", Permission: "PAY"}},
		}}, []string{"signer.serve.clients[0].pin"}},
		"a client that may what": {RoleSigner, Signer{Serve: SignerServe{
			Listen: ":1", Certificate: "c", Key: "k", CA: "ca", Clients: []SignerClient{{Name: "a", Permission: "ALL"}},
		}}, []string{"signer.serve.clients[0].may"}},
		"two clients of one name": {RoleSigner, Signer{Serve: SignerServe{
			Listen: ":1", Certificate: "c", Key: "k", CA: "ca",
			Clients: []SignerClient{{Name: "a", Permission: "PAY"}, {Name: "a", Permission: "READ"}},
		}}, []string{"signer.serve.clients[1].name"}},
		"a socket of its own":    {RoleSigner, Signer{Serve: SignerServe{Socket: "/run/s"}}, nil},
		"one file for two roles": {RoleSigner, Signer{Socket: "/run/s", Serve: SignerServe{Socket: "/run/s"}}, nil},
		"a listener with a client": {RoleSigner, Signer{Serve: SignerServe{
			Listen: ":1", Certificate: "c", Key: "k", Clients: []SignerClient{{Name: "a", Pin: pin, Permission: "PAY"}},
		}}, nil},
	} {
		conf := newSoundConfig()
		files := conf.Signer
		conf.Roles, conf.Signer = []Role{c.role}, c.signer
		if c.role == RoleSigner {
			conf.Signer.Seed, conf.Signer.Wrap, conf.Signer.Journal, conf.Signer.Policy = files.Seed, files.Wrap,
				files.Journal, files.Policy
		}
		if got := settings(conf.Check()); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// One file may configure every host: a host may lack a secret that its role does not use.
func TestARoleDoesNotLookForFilesOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := settle(t, dir)
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "db", "url"), "postgres://coffer:pw@db/coffer\n")
	write(t, filepath.Join(dir, "db", "read"), "postgres://coffer:pw@standby/coffer\n")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, strings.Replace(string(text), "[signer]\n", "[signer]\nsocket = '/run/coffer/signer.sock'\n", 1))
	if _, err := ReadConfig(path, RoleAPI); err != nil {
		t.Errorf("api: got %v, want no endpoint missed", err)
	}
	if _, err := ReadConfig(path, RoleScan); problemText(errors.Join(err), "chains.ETHEREUM.endpoints_file") == "" {
		t.Errorf("scan: got %v, want the endpoints missed", err)
	}
	if err := os.Remove(filepath.Join(dir, "db", "url")); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(path, RoleSigner); err != nil {
		t.Errorf("signer: got %v, want no database missed", err)
	}
}

func TestAProcessWithoutEndpointsAsksNobody(t *testing.T) {
	t.Parallel()
	conf := newSoundConfig()
	c := conf.offlineChain(chain.Ethereum)
	if _, err := c.Reader.Heads(t.Context()); err == nil || !strings.Contains(err.Error(), "no endpoint of ETHEREUM") {
		t.Errorf("got %v, want it said", err)
	}
	if answer, said := c.Sender.Send(t.Context(), nil); answer != chain.Unknown || said == "" {
		t.Errorf("got %v %q, want that nothing is known", answer, said)
	}
	// Such a process describes addresses and networks as the adapters do.
	for name, want := range map[chain.Name]chain.Chain{
		chain.Ethereum: {CAIP2: "eip155:1", SignerID: "1"},
		chain.Solana: {
			CAIP2: "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", SignerID: "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
			SeparateFeePayer: true,
		},
		chain.Bitcoin: {
			CAIP2:    "bip122:000000000019d6689c085ae165831e93",
			SignerID: "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f", SeparateFeePayer: true,
		},
	} {
		got := conf.offlineChain(name)
		if got.CAIP2 != want.CAIP2 || got.SignerID != want.SignerID || got.SeparateFeePayer != want.SeparateFeePayer ||
			got.AddressCodec == nil || got.Sender == nil || (got.UTXO != nil) != name.IsUTXO() {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
