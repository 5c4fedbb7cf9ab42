package chain

// Form is the kind of a deposit address, on chains that have several.
type Form string

// The forms. Without a word an address has its family's usual one, which on Bitcoin is
// native SegWit (BIP-84).
const (
	Usual   Form = ""
	Taproot Form = "TAPROOT" // Bitcoin alone: BIP-86
)
