package signinpages

import (
	"strconv"

	"rsc.io/qr"
)

// qrMargin is the white border of a QR code, which readers need.
const qrMargin = 4

// qrSide returns the number of squares on a side, as the size of the picture.
func qrSide(code *qr.Code) string {
	side := strconv.Itoa(code.Size + 2*qrMargin)
	return "0 0 " + side + " " + side
}

func appendSquare(path []byte, x, y int) []byte {
	path = append(path, 'M')
	path = strconv.AppendInt(path, int64(x), 10)
	path = append(path, ' ')
	path = strconv.AppendInt(path, int64(y), 10)
	return append(path, "h1v1h-1z"...)
}
