package ui

import (
	"strconv"

	"rsc.io/qr"
)

// qrMargin is the white border of a QR code, which readers need.
const qrMargin = 4

// EncodeQR draws a QR code as one path of bars, and returns the box around it. It is part of the page:
// the policy loads no image that the page itself brings. Error: the text is too long for a QR code.
func EncodeQR(text string) (picture, box string, err error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", "", err
	}
	var path []byte
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			width := 0
			for x+width < code.Size && code.Black(x+width, y) {
				width++
			}
			if width > 0 {
				path = appendBar(path, x+qrMargin, y+qrMargin, width)
				x += width
			}
		}
	}
	side := strconv.Itoa(code.Size + 2*qrMargin)
	return string(path), "0 0 " + side + " " + side, nil
}

// appendBar draws neighbours in one row together, which takes half of the bytes of single squares.
func appendBar(path []byte, x, y, width int) []byte {
	path = append(path, 'M')
	path = strconv.AppendInt(path, int64(x), 10)
	path = append(path, ' ')
	path = strconv.AppendInt(path, int64(y), 10)
	path = append(path, 'h')
	path = strconv.AppendInt(path, int64(width), 10)
	path = append(path, "v1h-"...)
	path = strconv.AppendInt(path, int64(width), 10)
	return append(path, 'z')
}
