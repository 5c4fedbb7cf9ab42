// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

/// An upgradeable proxy with the storage slots of ERC-1967. Its own functions
/// have names that no token has, so every other call, the admin's too, goes to
/// the implementation.
contract Proxy {
    // keccak256 of "eip1967.proxy.implementation" and ".admin", less one.
    bytes32 private constant IMPLEMENTATION = 0x360894a13ba1a3210667c828492db98dca3e2076cc3735a920a3ca505d382bbc;
    bytes32 private constant ADMIN = 0xb53127684a568b3173ae13b9f8a6016e243e63b6e8ee1178d6a717850b5d6103;

    event Upgraded(address indexed implementation);
    event AdminChanged(address previousAdmin, address newAdmin);

    constructor(address implementation_, address admin_, bytes memory call_) {
        setImplementation(implementation_);
        write(ADMIN, admin_);
        emit AdminChanged(address(0), admin_);
        if (call_.length > 0) {
            (bool ok, bytes memory answer) = implementation_.delegatecall(call_);
            if (!ok) {
                assembly {
                    revert(add(answer, 32), mload(answer))
                }
            }
        }
    }

    function proxyImplementation() external view returns (address) {
        return read(IMPLEMENTATION);
    }

    function proxyAdmin() external view returns (address) {
        return read(ADMIN);
    }

    function proxyUpgradeTo(address implementation_) external {
        require(msg.sender == read(ADMIN), "only the admin");
        setImplementation(implementation_);
    }

    function proxyChangeAdmin(address admin_) external {
        require(msg.sender == read(ADMIN), "only the admin");
        emit AdminChanged(read(ADMIN), admin_);
        write(ADMIN, admin_);
    }

    fallback() external {
        address to = read(IMPLEMENTATION);
        assembly {
            calldatacopy(0, 0, calldatasize())
            let ok := delegatecall(gas(), to, 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if iszero(ok) { revert(0, returndatasize()) }
            return(0, returndatasize())
        }
    }

    function setImplementation(address to) private {
        require(to.code.length > 0, "no code there");
        write(IMPLEMENTATION, to);
        emit Upgraded(to);
    }

    function read(bytes32 slot) private view returns (address a) {
        assembly {
            a := sload(slot)
        }
    }

    function write(bytes32 slot, address a) private {
        assembly {
            sstore(slot, a)
        }
    }
}
