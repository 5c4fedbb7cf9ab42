package console

import (
	"strconv"

	"rsc.io/qr"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

// qrMargin is the white border of a QR code, which readers need.
const qrMargin = 4

// mintMax bounds the numbers of tokens in a URL.
const mintMax = 1 << 30

// mintQuery is the query of a page about a token.
func mintQuery() []kernel.Parameter {
	return []kernel.Parameter{{Name: "mintId", Kind: kernel.NumberParameter, Max: mintMax}}
}

func mintText(mintID int) string { return strconv.Itoa(mintID) }

// qrBox returns the number of squares on a side, as the size of the picture.
func qrBox(code *qr.Code) string {
	side := strconv.Itoa(code.Size + 2*qrMargin)
	return "0 0 " + side + " " + side
}

// drawQR draws a QR code as one path of squares. It is part of the page: the policy loads no image that
// the page itself brings.
func drawQR(code *qr.Code) string {
	var path []byte
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				path = append(path, 'M')
				path = strconv.AppendInt(path, int64(x+qrMargin), 10)
				path = append(path, ' ')
				path = strconv.AppendInt(path, int64(y+qrMargin), 10)
				path = append(path, "h1v1h-1z"...)
			}
		}
	}
	return string(path)
}
