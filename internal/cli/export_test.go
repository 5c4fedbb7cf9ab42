package cli

import "github.com/alecthomas/kong"

// GasWanted returns the amount of gas that an operator is asked to send.
var GasWanted = gasWanted

// Tree is the complete command line.
func Tree() (*kong.Node, error) {
	parser, err := kong.New(new(commands), kong.Name("coffer"))
	if err != nil {
		return nil, err
	}
	return parser.Model.Node, nil
}
