package solanatx

import (
	"crypto/sha256"
	"fmt"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
)

// The programs and accounts of the chain that Coffer's transactions name.
const (
	SystemProgram     chain.Address = "11111111111111111111111111111111"
	TokenProgram      chain.Address = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"
	Token2022Program  chain.Address = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb"
	AssociatedProgram chain.Address = "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"
	budgetProgram     chain.Address = "ComputeBudget111111111111111111111111111111"
	blockhashesSysvar chain.Address = "SysvarRecentB1ockHashes11111111111111111111"
	rentSysvar        chain.Address = "SysvarRent111111111111111111111111111111111"
	wrappedMint       chain.Address = "So11111111111111111111111111111111111111112"
	wrappedMint2022   chain.Address = "9pan9bMn5HatX4EJdBwg9VgCa7Uz5HL8N1m5D3NdXej9"
)

var (
	system         = mustBytes(SystemProgram)
	token          = mustBytes(TokenProgram)
	token2022      = mustBytes(Token2022Program)
	associated     = mustBytes(AssociatedProgram)
	budget         = mustBytes(budgetProgram)
	blockhashes    = mustBytes(blockhashesSysvar)
	rent           = mustBytes(rentSysvar)
	wrappedSOL     = mustBytes(wrappedMint)
	wrappedSOL2022 = mustBytes(wrappedMint2022)
)

// chainAccounts are accounts of the chain itself that people mistake for wallets.
var chainAccounts = map[[keyBytes]byte]string{
	system:         "the System program",
	token:          "the Token program",
	token2022:      "the Token-2022 program",
	associated:     "the Associated Token Account program",
	budget:         "the Compute Budget program",
	wrappedSOL:     "the mint of wrapped SOL",
	wrappedSOL2022: "the mint of wrapped SOL (Token-2022)",
	mustBytes("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"): "the Memo program",
	mustBytes("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"): "the Memo program",
	mustBytes("1nc1nerator11111111111111111111111111111111"): "the incinerator",
	mustBytes("Vote111111111111111111111111111111111111111"): "the Vote program",
	mustBytes("Stake11111111111111111111111111111111111111"): "the Stake program",
	mustBytes("StakeConfig11111111111111111111111111111111"): "the Stake program's settings",
	mustBytes("Config1111111111111111111111111111111111111"): "the Config program",
	mustBytes("Feature111111111111111111111111111111111111"): "the Feature program",
	mustBytes("NativeLoader1111111111111111111111111111111"): "a loader of programs",
	mustBytes("BPFLoader1111111111111111111111111111111111"): "a loader of programs",
	mustBytes("BPFLoader2111111111111111111111111111111111"): "a loader of programs",
	mustBytes("BPFLoaderUpgradeab1e11111111111111111111111"): "a loader of programs",
	mustBytes("LoaderV411111111111111111111111111111111111"): "a loader of programs",
	mustBytes("AddressLookupTab1e1111111111111111111111111"): "the Address Lookup Table program",
	mustBytes("Ed25519SigVerify111111111111111111111111111"): "a program of the chain",
	mustBytes("KeccakSecp256k11111111111111111111111111111"): "a program of the chain",
	mustBytes("Secp256r1SigVerify1111111111111111111111111"): "a program of the chain",
	mustBytes("ZkTokenProof1111111111111111111111111111111"): "a program of the chain",
	mustBytes("ZkE1Gama1Proof11111111111111111111111111111"): "a program of the chain",
	mustBytes("Sysvar1111111111111111111111111111111111111"): "the owner of the sysvars",
	mustBytes("SysvarC1ock11111111111111111111111111111111"): "a sysvar",
	mustBytes("SysvarEpochRewards1111111111111111111111111"): "a sysvar",
	mustBytes("SysvarEpochSchedu1e111111111111111111111111"): "a sysvar",
	mustBytes("SysvarFees111111111111111111111111111111111"): "a sysvar",
	mustBytes("Sysvar1nstructions1111111111111111111111111"): "a sysvar",
	mustBytes("SysvarLastRestartS1ot1111111111111111111111"): "a sysvar",
	blockhashes: "a sysvar",
	rent:        "a sysvar",
	mustBytes("SysvarRewards111111111111111111111111111111"): "a sysvar",
	mustBytes("SysvarS1otHashes111111111111111111111111111"): "a sysvar",
	mustBytes("SysvarS1otHistory11111111111111111111111111"): "a sysvar",
	mustBytes("SysvarStakeHistory1111111111111111111111111"): "a sysvar",
}

func mustBytes(a chain.Address) [keyBytes]byte {
	b, err := Bytes(a)
	if err != nil {
		panic("solanatx: " + err.Error())
	}
	return b
}

// AssociatedAccount returns the token account of an owner for a mint, where every wallet looks for
// it. program is the one that owns the mint: the same mint under the other program has another
// account. The owner may lie off the curve.
func AssociatedAccount(owner, mint, program chain.Address) (chain.Address, error) {
	o, err := Bytes(owner)
	if err != nil {
		return "", fmt.Errorf("owner of a token account: %w", err)
	}
	m, err := Bytes(mint)
	if err != nil {
		return "", fmt.Errorf("mint of a token account: %w", err)
	}
	if program != TokenProgram && program != Token2022Program {
		return "", fmt.Errorf("%.60q is not a token program", string(program))
	}
	a, err := associatedAccount(o, m, mustBytes(program))
	if err != nil {
		return "", err
	}
	return Canonical(a), nil
}

func associatedAccount(owner, mint, program [keyBytes]byte) ([keyBytes]byte, error) {
	return programAddress(associated, owner[:], program[:], mint[:])
}

// programAddress returns the first address off the curve that a program has for seeds, counting a
// byte down.
func programAddress(program [keyBytes]byte, seeds ...[]byte) ([keyBytes]byte, error) {
	for bump := 255; bump >= 0; bump-- {
		h := sha256.New()
		for _, s := range seeds {
			h.Write(s)
		}
		h.Write([]byte{byte(bump)})
		h.Write(program[:])
		h.Write([]byte("ProgramDerivedAddress"))
		if a := [keyBytes]byte(h.Sum(nil)); !onCurve(a) {
			return a, nil
		}
	}
	// One in 2^256.
	return [keyBytes]byte{}, fmt.Errorf("no address off the curve for program %s", base58.Encode(program[:]))
}

// nonceSeed returns the seed of a treasury's nth nonce account. The address follows from the seed,
// so a database that lost its rows finds its accounts again.
func nonceSeed(n uint32) string { return fmt.Sprintf("%s%d", nonceSeedPrefix, n) }

const nonceSeedPrefix = "coffer-nonce-"

// NonceAccount returns the address of a treasury's nth nonce account, by the rule of
// CreateAccountWithSeed.
func NonceAccount(treasury chain.Address, n uint32) (chain.Address, error) {
	base, err := Bytes(treasury)
	if err != nil {
		return "", fmt.Errorf("authority of a nonce account: %w", err)
	}
	return Canonical(nonceAccount(base, n)), nil
}

func nonceAccount(base [keyBytes]byte, n uint32) [keyBytes]byte {
	return sha256.Sum256(append(append(base[:], nonceSeed(n)...), system[:]...))
}
