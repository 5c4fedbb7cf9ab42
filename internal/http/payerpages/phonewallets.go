package payerpages

import (
	"net/url"
	"strconv"
	"strings"
)

// phoneWallet is an app with a browser of its own, in which a page finds its wallet. Its links open a page there.
type phoneWallet struct {
	Name string
	// chains are the networks that it pays on, by their ids, with the word that its link has for each.
	chains map[int64]string
	solana string // the same for Solana; "" if it does not pay there
	// link returns the link that opens a page, for a network.
	link func(page *url.URL, network string) string
}

// The ids of the main networks. Test networks are left out: these apps know few of them, and hide them.
const (
	ethereumID, optimismID, bscID, polygonID = 1, 10, 56, 137
	baseID, arbitrumID, avalancheID          = 8453, 42161, 43114

	solanaMainnet = "solana:mainnet"
	anyNetwork    = "any" // for apps that ask the page for its network
)

func onNetworks(ids ...int64) map[int64]string {
	chains := map[int64]string{}
	for _, id := range ids {
		chains[id] = anyNetwork
	}
	return chains
}

// phoneWallets are the apps whose makers document such a link, as they have it now.
var phoneWallets = []phoneWallet{
	{
		Name:   "MetaMask",
		chains: onNetworks(ethereumID, optimismID, bscID, polygonID, baseID, arbitrumID, avalancheID),
		link: func(page *url.URL, _ string) string {
			return "https://link.metamask.io/dapp/" + strings.TrimPrefix(page.String(), page.Scheme+"://")
		},
	},
	{
		Name: "Phantom", chains: onNetworks(ethereumID, polygonID, baseID), solana: anyNetwork,
		link: func(page *url.URL, _ string) string {
			origin := url.URL{Scheme: page.Scheme, Host: page.Host}
			return "https://phantom.app/ul/browse/" + url.QueryEscape(page.String()) + "?ref=" +
				url.QueryEscape(origin.String())
		},
	},
	{
		Name:   "Coinbase Wallet",
		chains: onNetworks(ethereumID, optimismID, bscID, polygonID, baseID, arbitrumID, avalancheID),
		link: func(page *url.URL, _ string) string {
			return "https://go.cb-w.com/dapp?cb_url=" + url.QueryEscape(page.String())
		},
	},
	{
		Name: "Trust Wallet", solana: "501",
		chains: map[int64]string{
			ethereumID: "60", optimismID: "10000070", bscID: "20000714", polygonID: "966", baseID: "8453",
			arbitrumID: "10042221", avalancheID: "10009000",
		},
		link: func(page *url.URL, network string) string {
			return "https://link.trustwallet.com/open_url?coin_id=" + network + "&url=" + url.QueryEscape(page.String())
		},
	},
}

// phoneLink is a link that opens a page in an app.
type phoneLink struct{ Name, URL string }

// phoneLinks returns the links that open the page of an option in the apps that pay on its network. They have the path
// of the page, which may only be read, and never the key behind it: no server sees that one. Without an address of the
// pages there are none. Rule CO-144.
func (p *checkoutPage) phoneLinks(o *Option) (links []phoneLink) {
	page, err := url.Parse(p.request.origin + p.request.link("", mintName, strconv.Itoa(o.MintID)))
	if err != nil || page.Scheme != "https" || p.IsLocal {
		return nil
	}
	for _, w := range phoneWallets {
		network := ""
		switch {
		case o.EVM != nil:
			network = w.chains[o.EVM.ChainID]
		case o.Solana != nil && o.Solana.Network == solanaMainnet:
			network = w.solana
		}
		if network != "" {
			links = append(links, phoneLink{w.Name, w.link(page, network)})
		}
	}
	return links
}
