// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// The bookkeeping that the well-behaved tokens share. Each of them decides
/// for itself what its calls return and whom they refuse.
abstract contract ERC20 {
    string public name;
    string public symbol;
    uint8 public decimals;
    uint256 public totalSupply;
    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    function describe(string memory name_, string memory symbol_, uint8 decimals_) internal {
        name = name_;
        symbol = symbol_;
        decimals = decimals_;
    }

    function move(address from, address to, uint256 value) internal virtual {
        require(to != address(0), "transfer to nobody");
        require(balanceOf[from] >= value, "balance too small");
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function spend(address from, uint256 value) internal {
        uint256 left = allowance[from][msg.sender];
        require(left >= value, "allowance too small");
        if (left != type(uint256).max) allowance[from][msg.sender] = left - value;
    }

    function allow(address spender, uint256 value) internal {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
    }

    function create(address to, uint256 value) internal {
        totalSupply += value;
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }
}
