package ui

import "strings"

// StatementWord is a word of what a person signs: its name, and its text of printable ASCII.
type StatementWord struct{ Name, Text string }

// SignerKey is a passkey that may sign on a page.
type SignerKey struct {
	ID           string // of the enrolment
	CredentialID string // base64url
}

// Names of the fields of a signature, which the script fills in.
const (
	KeyIDName             = "keyId"
	NotAfterName          = "notAfter"
	CredentialIDName      = "credentialId"
	AuthenticatorDataName = "authenticatorData"
	ClientDataJSONName    = "clientDataJSON"
	SignatureName         = "signature"
	PublicKeyName         = "publicKey"
)

// SignatureNames are the fields of a signature in the order of the form.
var SignatureNames = []string{
	KeyIDName, NotAfterName, CredentialIDName, AuthenticatorDataName, ClientDataJSONName, SignatureName,
}

// SignView is a form whose act is signed by a passkey.
type SignView struct {
	Form      Form
	Act, Path string // Path is that to which the form is sent
	Words     []StatementWord
	Payments  []PaymentToSign // of a statement that lists several payments, in its order
	Hidden    []Hidden
	RPID      string // whose passkeys may answer
	Keys      []SignerKey
	Button    string // names the act
	IsDanger  bool
}

// PaymentToSign is one of several payments that are signed together.
type PaymentToSign struct {
	Title string
	Note  string // what a person ought to know of it and does not sign
	Words []StatementWord
}

// splitWords splits the words of a list of payments: what comes before the payments on the page, and what after.
func (v SignView) splitWords() (before, after []StatementWord) {
	for i, word := range v.Words {
		if word.Name == paymentHashName {
			return v.Words[:i], v.Words[i:]
		}
	}
	return v.Words, nil
}

// paymentHashName is the word of a list that names a payment by the hash of its words.
const paymentHashName = "paymentHash"

// MakeSignerView is a form that makes a passkey for signatures.
type MakeSignerView struct {
	Form         Form
	Act, Path    string
	Hidden       []Hidden
	RPID, RPName string
	Person       string      // as the system's prompt shows the person
	Display      string      // what the passkey is for, which the system's prompt shows
	Keys         []SignerKey // that the person has for this
	Button       string
}

// joinKeys writes two lists in one order for the script: the credentials, and the passkeys of which they are.
func joinKeys(keys []SignerKey) (credentials, ids string) {
	var first, second []string
	for _, key := range keys {
		first, second = append(first, key.CredentialID), append(second, key.ID)
	}
	return strings.Join(first, " "), strings.Join(second, " ")
}

// wordLabels names words for people. The label is not signed; the name is.
var wordLabels = map[string]string{
	"act": "What you sign", "amount": "Amount", "to": "To", "network": "Network", "memo": "Memo",
	"customer": "Customer", "product": "From product", "whitelistEntry": "Whitelist entry", "refund": "Refund",
	"checkout": "Checkout", "feeMode": "Network fee", "feeMax": "Limit of the fee", "units": "Atomic units",
	"contract": "Contract", "networkId": "Network number", "mint": "Token number", "purpose": "Purpose", "id": "Id",
	"round": "Round", "organization": "Organization", "approver": "Signed by", "notAfter": "Valid until",
	"installation": "Installation", "amountIn": "Pays", "fromMint": "From token number", "minOut": "Receives at least",
	"maxOut": "Receives at most", "toMint": "To token number", "payableUntil": "Payable until", "payments": "Payments",
	"total": "Total", paymentHashName: "Hash of a payment", "mode": "Mode", "rows": "Rows", "madeBy": "Made by",
	"contentHash": "Content hash",
	"email":       "E-mail", "person": "Person", "right": "May sign", "fingerprint": "Fingerprint",
	"publicKey": "Hash of the key", "credential": "Credential", "rpId": "Host name of the passkey",
	"origin": "Address of the pages",
	"quorum": "People for a payment", "ownPayments": "Own withdrawals", "returns": "Returns", "asset": "Asset",
	"version": "Version of the rule", "deposit": "Deposit", "reason": "Reason", "reference": "Reference of the case",
	"label": "Owner of the address", "labelHash": "Hash of the owner", "notBefore": "Usable from",
}

// wordLabel returns the label of a word, and its name for one without a label.
func wordLabel(name string) string {
	if label := wordLabels[name]; label != "" {
		return label
	}
	return EscapeForeign(name)
}

// wordClass says how large a word is shown: what a person compares first is largest, ids are smaller.
func wordClass(name string) string {
	switch name {
	case "amount", "to", "amountIn", "total", "email", "fingerprint", "quorum":
		return "first"
	case "units", "contract", "networkId", "mint", "fromMint", "toMint", "purpose", "id", "round", "organization",
		"approver", "notAfter", "installation", "publicKey", "credential", "rpId", "origin", "contentHash", "person",
		"version", "whitelistEntry", "deposit", "labelHash", paymentHashName:
		return "last"
	}
	return ""
}

// splitWord splits the text of a word into the groups in which people compare it, or returns nil for a text without
// groups. The groups joined are the text.
func splitWord(w StatementWord) []AddressGroup {
	switch w.Name {
	case "to", "contract", "fingerprint", "contentHash", "installation", "publicKey", "labelHash", paymentHashName:
		return SplitAddress(w.Text)
	}
	return nil
}

// groupWord groups the digits of a figure that begins the text. The script removes what this adds. Nothing else that
// people sign has U+202F, as their words are printable ASCII.
func groupWord(w StatementWord) string {
	switch w.Name {
	case "amount", "units", "feeMax", "amountIn", "minOut", "maxOut", "total":
		figure, unit, hasUnit := strings.Cut(w.Text, " ")
		if strings.Trim(figure, "0123456789.") != "" {
			return w.Text
		}
		if hasUnit {
			unit = " " + unit
		}
		return GroupDigits(figure) + unit
	}
	return w.Text
}
