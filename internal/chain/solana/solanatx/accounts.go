package solanatx

import (
	"crypto/sha256"
	"fmt"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
)

// The programs and accounts of the chain that a transaction of ours names.
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
	system         = must(SystemProgram)
	token          = must(TokenProgram)
	token2022      = must(Token2022Program)
	associated     = must(AssociatedProgram)
	budget         = must(budgetProgram)
	blockhashes    = must(blockhashesSysvar)
	rent           = must(rentSysvar)
	wrappedSOL     = must(wrappedMint)
	wrappedSOL2022 = must(wrappedMint2022)
)

// named are accounts of the chain itself that people mistake for wallets.
var named = map[[keyBytes]byte]string{
	system:         "the System program",
	token:          "the Token program",
	token2022:      "the Token-2022 program",
	associated:     "the Associated Token Account program",
	budget:         "the Compute Budget program",
	wrappedSOL:     "the mint of wrapped SOL",
	wrappedSOL2022: "the mint of wrapped SOL (Token-2022)",
	must("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo"): "the Memo program",
	must("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"): "the Memo program",
	must("1nc1nerator11111111111111111111111111111111"): "the incinerator",
	must("Vote111111111111111111111111111111111111111"): "the Vote program",
	must("Stake11111111111111111111111111111111111111"): "the Stake program",
	must("StakeConfig11111111111111111111111111111111"): "the Stake program's settings",
	must("Config1111111111111111111111111111111111111"): "the Config program",
	must("Feature111111111111111111111111111111111111"): "the Feature program",
	must("NativeLoader1111111111111111111111111111111"): "a loader of programs",
	must("BPFLoader1111111111111111111111111111111111"): "a loader of programs",
	must("BPFLoader2111111111111111111111111111111111"): "a loader of programs",
	must("BPFLoaderUpgradeab1e11111111111111111111111"): "a loader of programs",
	must("LoaderV411111111111111111111111111111111111"): "a loader of programs",
	must("AddressLookupTab1e1111111111111111111111111"): "the Address Lookup Table program",
	must("Ed25519SigVerify111111111111111111111111111"): "a program of the chain",
	must("KeccakSecp256k11111111111111111111111111111"): "a program of the chain",
	must("Secp256r1SigVerify1111111111111111111111111"): "a program of the chain",
	must("ZkTokenProof1111111111111111111111111111111"): "a program of the chain",
	must("ZkE1Gama1Proof11111111111111111111111111111"): "a program of the chain",
	must("Sysvar1111111111111111111111111111111111111"): "the owner of the sysvars",
	must("SysvarC1ock11111111111111111111111111111111"): "a sysvar",
	must("SysvarEpochRewards1111111111111111111111111"): "a sysvar",
	must("SysvarEpochSchedu1e111111111111111111111111"): "a sysvar",
	must("SysvarFees111111111111111111111111111111111"): "a sysvar",
	must("Sysvar1nstructions1111111111111111111111111"): "a sysvar",
	must("SysvarLastRestartS1ot1111111111111111111111"): "a sysvar",
	blockhashes: "a sysvar",
	rent:        "a sysvar",
	must("SysvarRewards111111111111111111111111111111"): "a sysvar",
	must("SysvarS1otHashes111111111111111111111111111"): "a sysvar",
	must("SysvarS1otHistory11111111111111111111111111"): "a sysvar",
	must("SysvarStakeHistory1111111111111111111111111"): "a sysvar",
}

func must(a chain.Address) [keyBytes]byte {
	b, err := Bytes(a)
	if err != nil {
		panic("solanatx: " + err.Error())
	}
	return b
}

// AssociatedAccount is the token account of an owner for a mint, where every
// wallet looks for it. The program is the one that owns the mint: the same mint
// under the other program is another account. The owner may lie off the curve.
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
		return "", fmt.Errorf("%.60q is no token program", string(program))
	}
	a, err := associatedAccount(o, m, must(program))
	if err != nil {
		return "", err
	}
	return Canonical(a), nil
}

func associatedAccount(owner, mint, program [keyBytes]byte) ([keyBytes]byte, error) {
	return programAddress(associated, owner[:], program[:], mint[:])
}

// programAddress is the first address off the curve that a program has for seeds,
// counting a byte down.
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

// nonceSeed is the seed of a treasury's nth nonce account. The seed makes the
// address, so that a database which lost its rows finds its accounts again.
func nonceSeed(n uint32) string { return fmt.Sprintf("%s%d", nonceSeedPrefix, n) }

const nonceSeedPrefix = "coffer-nonce-"

// NonceAccount is the address of a treasury's nth nonce account, by the rule of
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
