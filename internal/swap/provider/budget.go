package provider

// Member is one provider of a panel.
type Member struct {
	Provider Provider
	// QuotesPerMinute bounds how many quotes this process asks for; 0 sets no limit.
	QuotesPerMinute int
}
