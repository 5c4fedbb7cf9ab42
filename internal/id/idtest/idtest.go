// Package idtest has ids that are easily taken for each other. A test passes them through
// every place that compares ids: what belongs to one of them is never shown to another, nor
// counted, stopped or moved with it.
//
// What never happens here: I/O. A crash leaves nothing behind.
package idtest

import "strings"

// Alike are ids that an organization may give its customers, each one another customer. For
// each mistake of a comparison there are two that it takes for one.
var Alike = []string{
	// Letter case.
	"user_a", "USER_A", "User_a", "straße", "strasse", "STRASSE", "\u0131", "i", "I", "\u017f", "s",
	// LIKE and regular expressions.
	"userXa", "user%a", "user%", "%", "_", "*", "user.a", "user+a", `user\_a`, "[a-z]", ".*",
	// Separators, of a path and of words that are put together.
	"ab|c", "a|bc", "ab:c", "a:bc", "ab/c", "a/bc", "ab c", "a bc", "ab,c", "a,bc", "ab~c", "a~bc", "ab-c", "a-bc", "b", "1:a", "a",
	// A part of another one.
	"user_", "user_a1", "user_a10", "xuser_a",
	// Numbers, and words that mean nothing to some readers.
	"1", "01", "1.0", "1e0", "+1", "null", "NULL", "true", "none", "undefined", "-", "0x1", "0X1",
	// Texts of other languages.
	"'", "''", `"`, `{"a"}`, "{a,b}", "%25", "a%00b", "$1", "--", "&", "#", "?", ";", "=1",
	// What this service itself calls its own accounts, and what ids of its own look like.
	"CUSTODIAL", "CHECKOUT", "TREASURY", "custodial", "org_01J9ZW3M8Q4S5T6V7W8X9YZABC", "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	// Letters that look alike or fold to one, each in NFC.
	"\u00e9", "e", "\ufb01", "fi", "\uff41", "\u0430", "\u00b5", "\u03bc", "\u2460", "a\u200db", "ab",
	// As long as an id may be, with the difference in the last byte.
	strings.Repeat("z", 127) + "a", strings.Repeat("z", 127) + "b", strings.Repeat("z", 127),
}

// Refused are ids that are no customer's: they are other spellings of one that may be.
var Refused = []string{
	"", " user_a", "user_a ", "user_a\n", "e\u0301", "\u212b", "user\u200b_a", "user_a\x00", "user\u202e_a", "user_a\xff", ".", "..", "%2E", "%2e%2E", "a/../b", "\ufeffa",
	strings.Repeat("z", 129),
}
