package console

import "github.com/cofferpay/coffer/internal/http/signinpages"

// The pages of mailed links. The token is appended.
const (
	InvitationPath = Prefix + signinpages.InvitationLink
	DevicePath     = Prefix + signinpages.DeviceLink
)
