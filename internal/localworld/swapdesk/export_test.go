package swapdesk

import "crypto/ed25519"

// SigningKey returns the key of the quotes, with which a test forges some.
func (d *Server) SigningKey() ed25519.PrivateKey { return d.key }
