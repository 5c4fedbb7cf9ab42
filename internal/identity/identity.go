// Package identity has what the members of organizations, operators and API keys have in common:
// the form of the keys.
//
// It never stores a key. It has no I/O, so a crash leaves nothing.
package identity

// SettingsLock returns the name of the advisory lock of an organization's settings. A transaction
// that decides by a setting takes it in shared mode.
func SettingsLock(orgID string) string { return "settings of " + orgID }
