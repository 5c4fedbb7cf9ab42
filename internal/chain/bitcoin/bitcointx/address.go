package bitcointx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/btcsuite/btcd/address/v2/bech32"
	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/cofferpay/coffer/internal/chain"
)

// addressBytesMax is the longest text that BIP-173 calls an address.
const addressBytesMax = 90

// Programs of future witness versions have 2 to 40 bytes.
const (
	programBytesMin = 2
	programBytesMax = 40
	versionMax      = 16
)

// Parse reads an address of a network as a person or program gives it and returns its canonical
// form: bech32 in small letters, base58 unchanged. The error says in words what is wrong, and names
// the network or chain of the address if it is recognized.
func Parse(n chain.Network, s string) (chain.Address, error) {
	p, err := Params(n)
	if err != nil {
		return "", err
	}
	d, err := parseDestination(p, s)
	if err != nil {
		return "", err
	}
	return d.toAddress(p), nil
}

// addressHint returns what an address of a network looks like.
func addressHint(p *chaincfg.Params) string {
	if p == &chaincfg.MainNetParams {
		return "give an address that begins with bc1, 1 or 3"
	}
	return "give an address that begins with " + p.Bech32HRPSegwit + "1, m, n or 2"
}

// networks are Bitcoin's networks with their names.
var networks = []struct {
	params *chaincfg.Params
	name   string
}{
	{&chaincfg.MainNetParams, "the main network"},
	{&chaincfg.TestNet3Params, "a test network"},
	{&chaincfg.RegressionNetParams, "a local network (regtest)"},
}

func networkName(p *chaincfg.Params) string {
	for _, n := range networks {
		if n.params == p {
			return n.name
		}
	}
	return "another network"
}

// otherChains are the prefixes of other chains' bech32 texts.
var otherChains = map[string]string{
	"ltc": "Litecoin", "tltc": "Litecoin", "vtc": "Vertcoin", "dgb": "DigiByte",
	"cosmos": "Cosmos", "osmo": "Osmosis", "addr": "Cardano", "addr_test": "Cardano", "stake": "Cardano",
	"bnb": "the BNB Beacon Chain", "inj": "Injective", "sei": "Sei", "celestia": "Celestia", "zs": "Zcash",
	"ex": "Liquid", "lq": "Liquid", "bitcoincash": "Bitcoin Cash",
}

func parseDestination(p *chaincfg.Params, s string) (destination, error) {
	if err := refuseLookalikes(p, s); err != nil {
		return destination{}, err
	}
	// The last 1 of a bech32 text ends its prefix, and base58 has no zero, o, l or i.
	if cut := strings.LastIndexByte(s, '1'); cut > 0 {
		if prefix := strings.ToLower(s[:cut]); prefix == p.Bech32HRPSegwit || knownPrefix(prefix) {
			return readSegwit(p, s, prefix)
		}
	}
	return readBase58(p, s)
}

// refuseLookalikes refuses texts that are obviously something else.
func refuseLookalikes(p *chaincfg.Params, s string) error {
	lower := strings.ToLower(s[:min(len(s), addressBytesMax)])
	switch {
	case s == "":
		return errors.New("the address is empty: " + addressHint(p))
	case strings.HasPrefix(lower, "bitcoin:"):
		return errors.New(
			"this is a payment link: give the address in it alone, without bitcoin: and what follows the address",
		)
	case strings.HasPrefix(lower, "0x"):
		return errors.New("this is an address of Ethereum or a chain like it, not of Bitcoin: " + addressHint(p))
	case strings.HasPrefix(lower, "bitcoincash:"):
		return errors.New("this is an address of Bitcoin Cash, not of Bitcoin: " + addressHint(p))
	case strings.HasPrefix(lower, "lnbc"), strings.HasPrefix(lower, "lntb"), strings.HasPrefix(lower, "lnurl"):
		return errors.New(
			"this is an invoice of the Lightning network, which this service cannot pay: " + addressHint(p),
		)
	case len(s) > addressBytesMax && len(s) < 120 && strings.Contains("xyztuv", lower[:1]) &&
		strings.HasPrefix(lower[1:], "p"):
		return errors.New("this is an extended key, not an address: " + addressHint(p))
	case len(s) > addressBytesMax:
		return fmt.Errorf("the address has %d characters and no address of Bitcoin has more than %d", len(s),
			addressBytesMax)
	case strings.Contains(s, ".") || strings.Contains(s, "@"):
		return errors.New("names are not resolved: " + addressHint(p))
	}
	for i := range len(s) {
		if c := s[i]; !('0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z') && c != '_' {
			return fmt.Errorf("character %d of the address is not a letter or a digit", i+1)
		}
	}
	return nil
}

func knownPrefix(prefix string) bool {
	for _, n := range networks {
		if n.params.Bech32HRPSegwit == prefix {
			return true
		}
	}
	return otherChains[prefix] != ""
}

func readSegwit(p *chaincfg.Params, s, prefix string) (destination, error) {
	if strings.ToLower(s) != s && strings.ToUpper(s) != s {
		return destination{},
			errors.New(
				"the address mixes small and capital letters: write it in small letters, and check that it was " +
					"copied completely",
			)
	}
	if prefix != p.Bech32HRPSegwit {
		for _, n := range networks {
			if n.params.Bech32HRPSegwit == prefix {
				return destination{},
					fmt.Errorf("this is an address of %s of Bitcoin and this installation is on %s: %s", n.name,
						networkName(p), addressHint(p))
			}
		}
		return destination{}, fmt.Errorf("this is an address of %s, not of Bitcoin: %s", otherChains[prefix],
			addressHint(p))
	}
	_, data, checksum, err := bech32.DecodeGeneric(s)
	if err != nil || len(data) == 0 {
		return destination{},
			errors.New("the checksum of the address is wrong: a character was mistyped, left out or added")
	}
	version := data[0]
	program, err := bech32.ConvertBits(data[1:], 5, 8, false)
	if err != nil || version > versionMax || len(program) < programBytesMin || len(program) > programBytesMax {
		return destination{},
			errors.New("the address has a valid checksum and a wrong length: no wallet makes such an address")
	}
	if (version == 0) != (checksum == bech32.Version0) {
		return destination{},
			fmt.Errorf("the address has the checksum of another kind than its witness version %d: the program that made it is out of date",
				version)
	}
	switch {
	case version == 0 && len(program) == hashBytes:
		return destination{p2wpkh, program}, nil
	case version == 0 && len(program) == programBytes:
		return destination{p2wsh, program}, nil
	case version == 0:
		return destination{}, fmt.Errorf("the address has a witness program of %d bytes, which cannot be spent",
			len(program))
	case version == 1 && len(program) == programBytes:
		return destination{p2tr, program}, nil
	}
	return destination{},
		fmt.Errorf("the address has witness version %d with %d bytes, which is not in use: anyone could take a "+
			"payment to it",
			version, len(program))
}

// otherVersions are the first bytes of other chains' base58 texts.
var otherVersions = map[byte]string{
	0x30: "Litecoin", 0x32: "Litecoin", 0x1e: "Dogecoin", 0x16: "Dogecoin", 0x4c: "Dash", 0x41: "TRON",
}

func readBase58(p *chaincfg.Params, s string) (destination, error) {
	hash, version, err := base58.CheckDecode(s)
	switch {
	case errors.Is(err, base58.ErrChecksum) && len(base58.Decode(s)) == programBytes:
		return destination{}, errors.New("this is an address of Solana, not of Bitcoin: " + addressHint(p))
	case errors.Is(err, base58.ErrChecksum):
		return destination{},
			errors.New(
				"the checksum of the address is wrong: a character was mistyped, left out or added, or its case was " +
					"changed",
			)
	case err != nil:
		return destination{}, errors.New("this is not an address of Bitcoin: " + addressHint(p))
	case len(hash) == programBytes || len(hash) == programBytes+1:
		return destination{},
			errors.New("this looks like a private key: give it to no one, and move its money")
	case len(hash) != hashBytes:
		return destination{},
			errors.New("the address has a valid checksum and a wrong length: no wallet makes such an address")
	case version == p.PubKeyHashAddrID:
		return destination{p2pkh, hash}, nil
	case version == p.ScriptHashAddrID:
		return destination{p2sh, hash}, nil
	case otherVersions[version] != "":
		return destination{}, fmt.Errorf("this is an address of %s, not of Bitcoin: %s", otherVersions[version],
			addressHint(p))
	}
	for _, n := range networks {
		if version == n.params.PubKeyHashAddrID || version == n.params.ScriptHashAddrID {
			return destination{}, fmt.Errorf("this is an address of %s of Bitcoin and this installation is on %s: %s",
				n.name, networkName(p), addressHint(p))
		}
	}
	return destination{}, errors.New("this is an address of another chain than Bitcoin: " + addressHint(p))
}

// AddressCodec reads the addresses of one network.
type AddressCodec struct{ Network chain.Network }

var _ chain.AddressCodec = AddressCodec{}

// Parse calls the function of the same name.
func (g AddressCodec) Parse(s string) (chain.Address, error) { return Parse(g.Network, s) }

// IsUnspendable reports whether an address has no known key: its hash is all zeros, all ones or a
// made-up text, or its taproot key is invalid.
func (g AddressCodec) IsUnspendable(a chain.Address) bool {
	p, err := Params(g.Network)
	if err != nil {
		return false
	}
	d, err := parseDestination(p, string(a))
	return err == nil && d.isUnspendable()
}

// SampleAddress implements chain.AddressCodec: the P2WPKH address of a hash of zeros. It panics on a
// network that Bitcoin does not have.
func (g AddressCodec) SampleAddress() chain.Address {
	p, err := Params(g.Network)
	if err != nil {
		panic("bitcointx: " + err.Error())
	}
	return destination{p2wpkh, make([]byte, hashBytes)}.toAddress(p)
}

// ParseContract refuses: Bitcoin has no tokens.
func (AddressCodec) ParseContract(string) (chain.Address, error) {
	return "", errors.New("there are no tokens on Bitcoin: leave the contract out")
}

// PaymentURI returns a BIP-21 link. Bitcoin has no tokens.
func (AddressCodec) PaymentURI(a, _ chain.Address) string { return "bitcoin:" + string(a) }

// IsTaproot reports whether an address is a taproot address of any network, in its canonical form.
func IsTaproot(a chain.Address) bool {
	for _, n := range payloadNetworks {
		if d, err := destinationOf(n, a); err == nil {
			return d.form == p2tr
		}
	}
	return false
}
