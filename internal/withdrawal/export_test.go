package withdrawal

import "github.com/cofferpay/coffer/internal/webhooks/event"

// NewTestRecorder returns the recorder of the service.
var NewTestRecorder func() event.Recorder
