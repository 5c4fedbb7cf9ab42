package main

import "strings"

// summaryPrefix begins the line with which a suite says what it did.
const summaryPrefix = "trial: "

// summaryFinder reads the output of a suite and keeps the last summary line. A line counts when it
// is complete: a suite that dies while it writes has no summary.
type summaryFinder struct {
	line strings.Builder
	last string
}

func (f *summaryFinder) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' {
			f.line.WriteByte(b)
			continue
		}
		if text, ok := strings.CutPrefix(f.line.String(), summaryPrefix); ok {
			f.last = strings.TrimSpace(text)
		}
		f.line.Reset()
	}
	return len(p), nil
}

func (f *summaryFinder) summary() string { return f.last }
