package app

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/rescue"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/keys"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
)

// secretBytes is the length of a MAC key.
const secretBytes = signer.GrantKeyBytes

// KeyFiles names the files of an installation whose keys are in one directory.
func KeyFiles(dir string) (Keys, Signer) {
	path := func(name string) string { return filepath.Join(dir, name) }
	return Keys{
			Seal: path("seal.key"), Attest: path("attest.pub"), Webhook: path("webhook.key"), Cursor: path("cursor.key"),
			Approvals: path("approvals.key"),
		},
		Signer{Seed: path("seed.sealed"), Wrap: path("seed.key"), Journal: path("journal"), Policy: path("policy.json")}
}

// CreateKeys creates every missing key file of an installation, and an empty journal together with
// a new seed. A seed whose journal is missing is an error: it may have signed, and only the
// operator can say what happened.
func CreateKeys(k Keys, s Signer) error {
	for _, path := range []string{k.Seal, k.Webhook, k.Cursor, k.Approvals, s.Seed, s.Journal} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("create the folder of the keys: %w", err)
		}
	}
	for path, create := range map[string]func(string) error{
		k.Seal: seal.CreateKeyset, k.Webhook: delivery.CreateKey, k.Cursor: createSecret, k.Approvals: createSecret,
	} {
		if err := create(path); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("create %s: %w", path, err)
		}
	}
	if err := createWebhookPublic(k.Webhook, filepath.Join(filepath.Dir(k.Webhook), webhookPublic)); err != nil {
		return err
	}
	if s.isRemote() {
		return nil
	}
	files := keys.Files{Key: s.Seed, KEK: s.Wrap, Attest: k.Attest}
	switch _, err := os.Stat(s.Seed); {
	case err == nil:
		if _, err := os.Stat(s.Journal); err != nil {
			return fmt.Errorf(
				"the seed %s exists and its journal %s does not: restore the journal; if it is permanently lost, "+
					"coffer signer adopt rebuilds it; coffer signer init begins a new one only for a seed that has "+
					"never signed: %w",
				s.Seed, s.Journal, err,
			)
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// A journal without its seed is the rest of an installation. With a new seed next to it, every
	// start would have to be refused.
	if _, err := os.Stat(s.Journal); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf(
			"the journal %s exists and its seed %s does not: restore the seed with coffer keys restore, or name "+
				"another folder (%v)",
			s.Journal, s.Seed, err,
		)
	}
	if _, err := keys.CreateSeed(files, time.Now()); err != nil {
		return fmt.Errorf("create the seed: %w", err)
	}
	return CreateJournal(k, s)
}

// CreateJournal creates the empty journal of a seed that has never signed.
func CreateJournal(k Keys, s Signer) error {
	if _, err := os.Stat(s.Journal + rescue.JournalSuffix); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("coffer rescue has moved the money of this seed (%s exists, %v): begin with a new seed",
			s.Journal+rescue.JournalSuffix, err)
	}
	seed, err := keys.OpenSeed(keys.Files{Key: s.Seed, KEK: s.Wrap, Attest: k.Attest})
	if err != nil {
		return err
	}
	return local.CreateJournal(local.Config{Journal: s.Journal}, seed)
}

// webhookPublic is the file with the public half of the webhook key.
const webhookPublic = "webhook.pub"

// createWebhookPublic writes the public half of the webhook key into a file next to it, for
// processes that show it and sign nothing. After a replacement the former key's line stays after
// the new one, for as long as receivers need it.
func createWebhookPublic(private, public string) error {
	key, err := delivery.OpenKey(private)
	if err != nil {
		return err
	}
	lines := []string{key.Public()}
	switch existing, err := readWebhookPublic(public); {
	case err == nil && existing[0] == key.Public():
		return nil
	case err == nil:
		lines = append(lines, existing[0])
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	fresh := public + ".new"
	if err := os.WriteFile(fresh, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("create %s: %w", public, err)
	}
	return os.Rename(fresh, public)
}

// readWebhookPublic reads the file of createWebhookPublic: keys, newest first.
func readWebhookPublic(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("keys.webhook_public: %w; coffer keys create makes it", err)
	}
	keys := strings.Fields(string(text))
	if len(keys) == 0 || slices.ContainsFunc(keys, func(k string) bool { return !strings.HasPrefix(k, "whpk_") }) {
		return nil, fmt.Errorf("keys.webhook_public: %s does not contain public keys of webhooks (whpk_…), one per "+
			"line",
			path)
	}
	return keys, nil
}

func createSecret(path string) error {
	b := make([]byte, secretBytes)
	if _, err := rand.Read(b); err != nil {
		return err
	}
	return keys.CreateFile(path, []byte(hex.EncodeToString(b)+"\n"), 0o600)
}

// readGrantKey reads the key that the service and the signer share.
func readGrantKey(path string) (*signer.GrantKey, error) {
	b, err := readSecret("keys.approvals", path)
	if err != nil {
		return nil, err
	}
	return signer.NewGrantKey(b)
}

func readCursorKey(path string) ([]byte, error) { return readSecret("keys.cursor", path) }

func readSecret(setting, path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; coffer keys create makes it", setting, err)
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(b) != secretBytes {
		return nil, fmt.Errorf("%s: %s does not contain %d bytes in hex", setting, path, secretBytes)
	}
	return b, nil
}

// OpenSigner opens the configured signer: the one at a socket or an address, or one in this
// process, which locks the journal. closer closes it.
func OpenSigner(conf Config) (sign signer.Signer, attest ed25519.PublicKey, closer func() error, err error) {
	k, s := conf.Keys, conf.Signer
	attest, err = keys.ReadAttestKey(k.Attest)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("keys.attest: %w", err)
	}
	if !conf.hasRole(RoleSigner) {
		client, err := s.dialRemote()
		if err != nil {
			return nil, nil, nil, err
		}
		return client, attest, func() error { client.Close(); return nil }, nil
	}
	seed, signerConf, err := openSeed(conf)
	if err != nil {
		return nil, nil, nil, err
	}
	if signerConf.Grants, err = readGrantKey(k.Approvals); err != nil {
		return nil, nil, nil, err
	}
	opened, err := local.Open(signerConf, seed)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: restore the journal; if it is permanently lost, coffer signer adopt rebuilds it", err)
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("signer.journal: %w", err)
	}
	return opened, attest, opened.Close, nil
}

// dialRemote connects to the signer of another process.
func (s Signer) dialRemote() (*remote.Client, error) {
	if s.Socket != "" {
		return remote.DialSocket(s.Socket), nil
	}
	client, err := remote.DialTLS(s.Address, remote.ClientConfig{
		TLSFiles: remote.TLSFiles{Certificate: s.TLS.Certificate, Key: s.TLS.Key, CA: s.TLS.CA}, Name: s.TLS.Name,
		Pin: s.TLS.Pin,
	})
	if err != nil {
		return nil, fmt.Errorf("signer.tls: %w", err)
	}
	return client, nil
}

// checkPolicy refuses chains that the signer's policy assigns to another network, and fee caps for
// which the signer would not sign. The signer sees a fee only once its slot is taken, and a slot
// that is never signed blocks every later payment of the wallet.
func (c Config) checkPolicy() error {
	if !c.hasRole(RoleSigner) {
		return nil // the signer's own process checks it; see ServeSigner
	}
	text, err := os.ReadFile(c.Signer.Policy)
	if err != nil {
		return fmt.Errorf("signer.policy: %w", err)
	}
	policy, err := local.ParsePolicy(text)
	if err != nil {
		return fmt.Errorf("signer.policy: %w", err)
	}
	var errs []error
	if _, hasBitcoin := policy.Chains[chain.Bitcoin]; hasBitcoin && c.Network == "" {
		errs = append(errs, errors.New(
			"network: is missing, and the signer's policy has BITCOIN, whose addresses depend on the network; set it "+
				"to MAINNET, TESTNET or LOCAL",
		))
	}
	// For the main networks that the program knows by their ids, ParsePolicy refuses it.
	if unlimited := policy.UnlimitedSetting(); unlimited != "" && c.Network == chain.Mainnet {
		errs = append(errs, fmt.Errorf(
			"signer.policy: %s is for local chains and test networks, and network is MAINNET; set limits", unlimited,
		))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		allowed, ok := policy.Chains[name]
		if !ok {
			continue // no payment is admitted there, so none takes a slot
		}
		if id := c.signerID(name); allowed.SignerID != id {
			errs = append(errs, fmt.Errorf(
				"chains.%s: is the network %s, and the signer's policy has signerId %s: it would sign for another "+
					"network, or refuse; make both equal",
				name, id, allowed.SignerID,
			))
		}
		setting, subject, costMax := "cost_max", "any transaction", money.Zero
		if name.Family() == chain.EVM {
			setting, subject = "fee_cap", fmt.Sprintf("a transaction of %d gas", evm.GasLimitMax)
			if costMax, err = money.Parse(c.Chains[name].FeeCap); err == nil {
				costMax, err = costMax.Mul(evm.GasLimitMax)
			}
		} else {
			costMax = c.Chains[name].costMax(name)
		}
		if err != nil || allowed.FeeMax.Less(costMax) {
			errs = append(errs,
				fmt.Errorf("chains.%s.%s: %s can cost %v with it, and the signer's feeMax is %v: the signer would "+
					"refuse it after it took a slot, and all later ones would wait; lower %s or raise feeMax",
					name, setting, subject, costMax, allowed.FeeMax, setting))
		}
		if rate := cmp.Or(c.Chains[name].MergeRate, bitcoin.ConsolidationRateDefault); name == chain.Bitcoin &&
			allowed.EffectiveConsolidationRate().Less(money.Units(rate)) {
			errs = append(errs,
				fmt.Errorf("chains.%s.merge_rate: is %d, and the signer's mergeRateMax is %v: the signer would "+
					"refuse a consolidation after it took its outputs; lower merge_rate or raise mergeRateMax",
					name, rate, allowed.EffectiveConsolidationRate()))
		}
	}
	return errors.Join(errs...)
}

// openSeed reads the seed and the policy of a signer in this process. The seed is for the network
// of the configuration.
func openSeed(conf Config) (keys.Seed, local.Config, error) {
	k, s := conf.Keys, conf.Signer
	seed, err := keys.OpenSeed(keys.Files{Key: s.Seed, KEK: s.Wrap, Attest: k.Attest})
	if err != nil {
		return keys.Seed{}, local.Config{}, fmt.Errorf("signer.seed: %w", err)
	}
	text, err := os.ReadFile(s.Policy)
	if err != nil {
		return keys.Seed{}, local.Config{}, fmt.Errorf("signer.policy: %w", err)
	}
	policy, err := local.ParsePolicy(text)
	if err != nil {
		return keys.Seed{}, local.Config{}, fmt.Errorf("signer.policy: %w", err)
	}
	return seed.ForNetwork(conf.Network), local.Config{Journal: s.Journal, Policy: policy}, nil
}

// ServeSigner serves the configured signer at the socket and the address under signer.serve, until
// ctx ends. onReady receives the head of the journal just before.
func ServeSigner(ctx context.Context, conf Config, onReady func(signer.Head)) error {
	if err := conf.checkPolicy(); err != nil {
		return err
	}
	if conf.Signer.Serve.Socket == "" && conf.Signer.Serve.Listen == "" {
		return errors.New(
			"signer.serve: is missing: this signer would have no listener; set its socket or listen, or give --socket",
		)
	}
	sign, _, closeSigner, err := OpenSigner(conf)
	if err != nil {
		return err
	}
	head, err := sign.Head(ctx)
	if err != nil {
		return errors.Join(err, closeSigner())
	}
	answers, err := conf.Signer.Serve.openServers(ctx, sign, nil)
	if err != nil {
		return errors.Join(err, closeSigner())
	}
	onReady(head)
	g, ctx := errgroup.WithContext(ctx)
	for _, answer := range answers {
		g.Go(func() error { return answer(ctx) })
	}
	return errors.Join(g.Wait(), closeSigner())
}

// openServers returns functions that serve other processes, each until its context ends. The
// network listener is open when it returns, and watch knows its certificates.
func (s SignerServe) openServers(
	ctx context.Context, sign signer.Signer, watch *remote.CertificateWatch,
) (servers []func(context.Context) error, err error) {
	if s.Listen != "" {
		conf := remote.ServerConfig{
			TLSFiles: remote.TLSFiles{Certificate: s.Certificate, Key: s.Key, CA: s.CA}, CertificateWatch: watch,
		}
		for _, c := range s.Clients {
			conf.Peers = append(conf.Peers,
				remote.Peer{Name: c.Name, Pin: c.Pin, Permission: remote.Permission(c.Permission)})
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Listen)
		if err != nil {
			return nil, fmt.Errorf("signer.serve.listen: %w", err)
		}
		servers = append(servers, func(ctx context.Context) error { return remote.ServeTLS(ctx, l, conf, sign) })
	}
	if s.Socket != "" {
		servers = append(servers, func(ctx context.Context) error { return remote.ServeSocket(ctx, s.Socket, sign) })
	}
	return servers, nil
}
