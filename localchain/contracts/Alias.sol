// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

interface Behind {
    function transferFrom(address from, address to, uint256 value) external returns (bool);
    function balanceOf(address account) external view returns (uint256);
}

/// A second address of one token: transfers that come here are made there, for
/// a holder who has allowed it, and both contracts announce them. Both give the
/// same balances.
contract Alias {
    Behind public immutable token;

    event Transfer(address indexed from, address indexed to, uint256 value);

    constructor(address token_) {
        token = Behind(token_);
    }

    function balanceOf(address account) external view returns (uint256) {
        return token.balanceOf(account);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        emit Transfer(msg.sender, to, value);
        return token.transferFrom(msg.sender, to, value);
    }
}
