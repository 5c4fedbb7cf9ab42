package app

import (
	"bytes"
	_ "embed" // the text of the sample
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/catalogue"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
)

//go:embed sample.toml.tmpl
var sampleText string

var sampleTemplate = template.Must(template.New("sample").Funcs(template.FuncMap{
	"finality": func(n catalogue.Network) string {
		final := "the finalized tag of its nodes"
		switch {
		case n.Chain == chain.Bitcoin:
			final = fmt.Sprintf("with %d confirmations", n.Depth)
		case n.Depth > 0:
			final = fmt.Sprintf("%d blocks deep", n.Depth)
		}
		return wrapComment(fmt.Sprintf("%s. Final is %s: %s", n.Name, final, n.FinalityNote))
	},
	"lower": func(n chain.Name) string { return strings.ToLower(string(n)) },
	"whole": func(a money.Amount, decimals int) string { return a.Decimal(decimals) },
	"gwei":  func(a money.Amount) string { return a.Decimal(9) },
	"pegged": func(m catalogue.Mint) bool {
		return m.Contract != "" // every token of the list is a dollar token
	},
}).Parse(sampleText))

// SampleConfig returns a configuration with comments for these chains. Without chains it has all
// chains of the network that this version supports. It is valid once the files that it names exist.
func SampleConfig(network chain.Network, chains ...chain.Name) ([]byte, error) {
	list, err := sampleNetworks(network, chains)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = sampleTemplate.Execute(&b, map[string]any{
		"Network": string(network), "Local": network == chain.Local, "Test": network == chain.Testnet,
		"Networks": list, "OwnIDs": catalogue.CustomIDsFrom,
	})
	if err != nil {
		return nil, fmt.Errorf("sample of %s: %w", network, err)
	}
	return settingComment.ReplaceAllFunc(b.Bytes(), func(line []byte) []byte {
		m := settingComment.FindSubmatch(line)
		return fmt.Appendf(nil, "%-*s # %s", settingCommentColumn, m[1], m[2])
	}), nil
}

// settingComment matches a setting with a comment after it; such comments are aligned.
var settingComment = regexp.MustCompile(`(?m)^([^#\n].*?)  # (.*)$`)

const (
	settingCommentColumn = 40
	commentWidth         = 78
)

// wrapComment wraps a text into comment lines.
func wrapComment(text string) string {
	var b strings.Builder
	width := 0
	for _, word := range strings.Fields(text) {
		switch {
		case width == 0:
			b.WriteString("#")
			width = 1
		case width+1+len(word) > commentWidth:
			b.WriteString("\n#")
			width = 1
		}
		b.WriteString(" " + word)
		width += 1 + len(word)
	}
	return b.String()
}

// The limits of the sample's policy, as multiples of the maximum of one payment.
const (
	organizationPayments = 5
	overallPayments      = 12
)

// SamplePolicy returns a signer's policy for the configuration of SampleConfig. Its limits are a
// starting point, and it names only what the sample names.
func SamplePolicy(network chain.Network, chains ...chain.Name) ([]byte, error) {
	list, err := sampleNetworks(network, chains)
	if err != nil {
		return nil, err
	}
	policy := signpolicy.Policy{Chains: map[chain.Name]signpolicy.Chain{}}
	for _, n := range list {
		id, fee := n.Genesis, n.CostMax
		if n.Chain.Family() == chain.EVM {
			var err error
			if fee, err = n.FeeCap.Mul(evm.GasLimitMax); err != nil {
				return nil, fmt.Errorf("fee of %s: %w", n.Name, err)
			}
			id = fmt.Sprint(n.ChainID)
		}
		chainPolicy := signpolicy.Chain{
			SignerID: id, FeeMax: fee, GasMax: fee, Assets: map[chain.Address]signpolicy.Limit{},
		}
		for _, m := range n.Mints {
			limit := signpolicy.Limit{PaymentMax: m.PaymentMax}
			for limitMax, times := range map[*money.Amount]uint64{
				&limit.OrganizationMax: organizationPayments, &limit.OverallMax: overallPayments,
			} {
				var err error
				if *limitMax, err = m.PaymentMax.Mul(times); err != nil {
					return nil, fmt.Errorf("limit of %s on %s: %w", m.Symbol, n.Name, err)
				}
			}
			chainPolicy.Assets[m.Contract] = limit
		}
		policy.Chains[n.Chain] = chainPolicy
	}
	if err := policy.Validate(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(policy, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(text, '\n'), err
}

// localNetwork is a chain of a development node. The local world of this program creates its own;
// this is for an existing node.
var localNetwork = catalogue.Network{
	Network: chain.Local, Chain: chain.Ethereum, Name: "a development node", ChainID: 31337, Confirmations: 64,
	Finality:     "FINALIZED",
	FinalityNote: "its blocks have no value.",
	FeeCap:       money.MustParse("500000000000"), TipCap: money.MustParse("3000000000"),
	Mints: []catalogue.Mint{{
		ID: 4, Symbol: "ETH", Name: "Ether", Decimals: 18,
		MinDeposit: money.MustParse("10000000000000"), MinWithdraw: money.MustParse("10000000000000"),
		PaymentMax: money.MustParse("100000000000000000000"),
	}},
}

// sampleNetworks returns the networks of a sample.
func sampleNetworks(network chain.Network, chains []chain.Name) ([]catalogue.Network, error) {
	if network == chain.Local {
		if len(chains) > 1 || len(chains) == 1 && chains[0] != chain.Ethereum {
			return nil, fmt.Errorf("network LOCAL has a sample of ETHEREUM only")
		}
		return []catalogue.Network{localNetwork}, nil
	}
	var list []catalogue.Network
	for _, n := range catalogue.List() {
		if n.Network == network && (len(chains) == 0 || slices.Contains(chains, n.Chain)) {
			list = append(list, n)
		}
	}
	for _, name := range chains {
		if !slices.ContainsFunc(list, func(n catalogue.Network) bool { return n.Chain == name }) {
			return nil, fmt.Errorf("%s is not a chain of %s in the catalogue of this version", name, network)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("network is %q; it has to be MAINNET, TESTNET or LOCAL", network)
	}
	return list, nil
}
