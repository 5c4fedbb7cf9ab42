package ui

import (
	"strconv"

	"rsc.io/qr"
)

// qrMargin is the white border of a QR code, which readers need.
const qrMargin = 4

// EncodeQR draws a QR code as one path of squares, and returns the box around it. It is part of the page:
// the policy loads no image that the page itself brings. Error: the text is too long for a QR code.
func EncodeQR(text string) (picture, box string, err error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", "", err
	}
	var path []byte
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				path = appendSquare(path, x+qrMargin, y+qrMargin)
			}
		}
	}
	side := strconv.Itoa(code.Size + 2*qrMargin)
	return string(path), "0 0 " + side + " " + side, nil
}

func appendSquare(path []byte, x, y int) []byte {
	path = append(path, 'M')
	path = strconv.AppendInt(path, int64(x), 10)
	path = append(path, ' ')
	path = strconv.AppendInt(path, int64(y), 10)
	return append(path, "h1v1h-1z"...)
}
