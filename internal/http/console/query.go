package console

import (
	"strconv"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

// mintMax bounds the numbers of tokens in a URL.
const mintMax = 1 << 30

// mintQuery is the query of a page about a token.
func mintQuery() []kernel.Parameter {
	return []kernel.Parameter{{Name: "mintId", Kind: kernel.NumberParameter, Max: mintMax}}
}

func mintText(mintID int) string { return strconv.Itoa(mintID) }
