package localworld

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// InfoFile is the file in which a running world describes itself, relative to the folder in which
// it was started.
const InfoFile = ".coffer/local.json"

// MailFolder is the folder of the mails of a running world, one file each, relative to the folder in
// which it was started.
const MailFolder = ".coffer/mail"

// Info has what a client needs to know about a running world. It includes the world's secrets,
// which are worth nothing anywhere else.
type Info struct {
	BaseURL        string              `json:"baseUrl"`
	DashboardURL   string              `json:"dashboardUrl"` // on localhost, where a browser keeps cookies
	CheckoutURL    string              `json:"checkoutUrl"`  // begins the addresses of the pages of payers
	OpenAPIURL     string              `json:"openapiUrl"`
	OperatorURL    string              `json:"operatorUrl"` // without /v1
	ConsoleURL     string              `json:"consoleUrl"`  // on localhost, too
	OpsURL         string              `json:"opsUrl"`
	OrganizationID string              `json:"organizationId"`
	APIKey         string              `json:"apiKey"`
	Operator       Operator            `json:"operator"`
	Operators      []User              `json:"operators"` // who sign in to the console
	Users          []User              `json:"users"`
	Chains         map[string]Endpoint `json:"chains"`
	Mints          []Mint              `json:"mints"`
	Swaps          SwapProvider        `json:"swaps,omitzero"` // absent without a swap provider
	Database       Database            `json:"database"`
	Config         string              `json:"config"` // the configuration file that the service runs with
	OutageProxies  bool                `json:"gates"`  // an outage of a chain's provider can be simulated
	// PayoutContracts are the chains with the payout contract and its address there.
	PayoutContracts map[string]string `json:"payoutContracts,omitempty"`
	PayoutTemplate  string            `json:"payoutTemplate,omitempty"` // a list of payments in CSV
	// Control is the unix socket at which the world takes commands; "" if the service runs in the world's process.
	Control string `json:"control,omitempty"`
}

// Operator is the operator of this world.
type Operator struct {
	APIKey string `json:"apiKey"` // for the header x-operator-key
}

// User is a person who signs in: of the organization, or an operator.
type User struct {
	Email      string   `json:"email"`
	Password   string   `json:"password"`
	TOTPSecret string   `json:"totpSecret"` // base32, for an authenticator app
	Roles      []string `json:"roles"`
}

// Endpoint is a chain's own RPC, and an account with plenty of every coin and token.
type Endpoint struct {
	RPCURL    string `json:"rpcUrl"`
	WSURL     string `json:"wsUrl,omitempty"`
	ChainID   uint64 `json:"chainId,omitempty"`
	User      string `json:"user,omitempty"` // of HTTP Basic, with Password
	Password  string `json:"password,omitempty"`
	FaucetKey string `json:"faucetKey"` // as wallets of the chain import it
}

// Mint is an entry of the catalogue.
type Mint struct {
	ID              int     `json:"id"`
	Symbol          string  `json:"symbol"`
	Chain           string  `json:"chain"`
	Decimals        int     `json:"decimals"`
	ContractAddress *string `json:"contractAddress"`
}

// Database is the world's private PostgreSQL, as the service logs in to it.
type Database struct {
	URL string `json:"url"`
}

// FindMint returns a mint by its id.
func (i Info) FindMint(id int) (Mint, bool) {
	for _, m := range i.Mints {
		if m.ID == id {
			return m, true
		}
	}
	return Mint{}, false
}

// ReadInfo reads the description of the world that runs below dir.
func ReadInfo(dir string) (Info, error) {
	var info Info
	b, err := os.ReadFile(filepath.Join(dir, InfoFile))
	if errors.Is(err, fs.ErrNotExist) {
		return info, fmt.Errorf(
			"no local world runs here (%s is missing): start one with make run, or bin/coffer local", InfoFile,
		)
	}
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	if err != nil {
		return info, fmt.Errorf("read %s: %w", InfoFile, err)
	}
	return info, nil
}

// writeFile replaces the description atomically. Only its owner can read it.
func (i Info) writeFile(dir string) error {
	b, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return fmt.Errorf("describe the world: %w", err)
	}
	path := filepath.Join(dir, InfoFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("describe the world: %w", err)
	}
	return replaceFile(path, append(b, '\n'))
}
