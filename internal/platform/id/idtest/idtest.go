// Package idtest has ids that are easily confused with each other. A test passes them through every
// place that compares ids. What belongs to one id is never shown to another, nor counted, stopped
// or moved with it.
//
// The package does no I/O. A crash leaves no trace.
package idtest

import "strings"

// Alike are ids that an organization may give its customers, each of which is another customer. For
// each kind of wrong comparison, two of them would be equal.
var Alike = []string{
	// Letter case.
	"user_a", "USER_A", "User_a", "straße", "strasse", "STRASSE", "\u0131", "i", "I", "\u017f", "s",
	// LIKE and regular expressions.
	"userXa", "user%a", "user%", "%", "_", "*", "user.a", "user+a", `user\_a`, "[a-z]", ".*",
	// Separators, of paths and of joined words.
	"ab|c", "a|bc", "ab:c", "a:bc", "ab/c", "a/bc", "ab c", "a bc", "ab,c", "a,bc", "ab~c", "a~bc", "ab-c", "a-bc",
	"b", "1:a", "a",
	// A part of another id.
	"user_", "user_a1", "user_a10", "xuser_a",
	// Numbers, and words with a special meaning in some formats.
	"1", "01", "1.0", "1e0", "+1", "null", "NULL", "true", "none", "undefined", "-", "0x1", "0X1",
	// Syntax of other languages.
	"'", "''", `"`, `{"a"}`, "{a,b}", "%25", "a%00b", "$1", "--", "&", "#", "?", ";", "=1",
	// Names of Coffer's own accounts, and the form of its own ids.
	"CUSTODIAL", "CHECKOUT", "TREASURY", "custodial", "org_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	"dep_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	// Letters that look alike or that folding makes equal, each in NFC.
	"\u00e9", "e", "\ufb01", "fi", "\uff41", "\u0430", "\u00b5", "\u03bc", "\u2460", "a\u200db", "ab",
	// The longest possible ids, with the difference in the last byte.
	strings.Repeat("z", 127) + "a", strings.Repeat("z", 127) + "b", strings.Repeat("z", 127),
}

// Refused are ids that no customer can have: they are other spellings of valid ids.
var Refused = []string{
	"", " user_a", "user_a ", "user_a\n", "e\u0301", "\u212b", "user\u200b_a", "user_a\x00", "user\u202e_a",
	"user_a\xff", ".", "..", "%2E", "%2e%2E", "a/../b", "\ufeffa",
	strings.Repeat("z", 129),
}
