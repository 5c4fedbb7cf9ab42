// Package docs holds the pages that the program itself shows. What never happens
// here: code. What a crash leaves: nothing.
package docs

import _ "embed" // the pages

// Integrate is the guide for integrators, in Markdown: /docs shows it above the
// reference, and a test runs every command and every program in it.
//
//go:embed integrate.md
var Integrate string

// Operator is the guide for those who run the service, in Markdown: /docs of the
// operator's listener shows it above that reference.
//
//go:embed operator.md
var Operator string
