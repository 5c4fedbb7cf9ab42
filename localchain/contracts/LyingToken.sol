// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {ERC20} from "./ERC20.sol";

/// Misbehaves: its events say what did not happen, and what happens it can
/// keep to itself.
contract LyingToken is ERC20 {
    constructor(string memory name_, string memory symbol_, uint8 decimals_) {
        describe(name_, symbol_, decimals_);
    }

    function mint(address to, uint256 value) external {
        create(to, value);
    }

    /// Announces a transfer and moves nothing.
    function transfer(address to, uint256 value) external returns (bool) {
        emit Transfer(msg.sender, to, value);
        return true;
    }

    /// Announces one amount and moves another.
    function exaggerate(address to, uint256 announced, uint256 moved) external {
        shift(msg.sender, to, moved);
        emit Transfer(msg.sender, to, announced);
    }

    /// Moves without a word.
    function whisper(address to, uint256 value) external {
        shift(msg.sender, to, value);
    }

    /// Announces a transfer between any two addresses.
    function pretend(address from, address to, uint256 value) external {
        emit Transfer(from, to, value);
    }

    function shift(address from, address to, uint256 value) private {
        require(balanceOf[from] >= value, "balance too small");
        balanceOf[from] -= value;
        balanceOf[to] += value;
    }
}
