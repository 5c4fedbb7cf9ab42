package chain

// Form is the kind of a deposit address, on chains that have several.
type Form string

// The forms. Usual is the family's usual form, which on Bitcoin is native SegWit (BIP-84).
const (
	Usual   Form = ""
	Taproot Form = "TAPROOT" // Bitcoin alone: BIP-86
)
