// Every fault with each value of on_error and durability, once and for ever, for the tests of these options.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <ostream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "io/fault_file.h"

namespace forebay::test {

struct Fault {
    const char* name;
    io::Operation operation;
    int sys_errno;
    std::size_t bytes_done_first = 0;
    bool of_target = true;   // else of the staging device
};

struct FaultCase {
    Fault fault;
    OnError on_error;
    Durability durability;
    bool for_ever;
};

inline std::string name_of(OnError on_error, Durability durability) {
    const char* const policies[] = {"fail", "retry", "through"};
    return std::string(policies[static_cast<int>(on_error)]) + (durability == Durability::kNode ? "_node" : "_process");
}
inline std::string name_of(const FaultCase& a) {
    return std::string(a.fault.name) + "_" + name_of(a.on_error, a.durability) + (a.for_ever ? "_for_ever" : "_once");
}
inline std::ostream& operator<<(std::ostream& out, const FaultCase& a) { return out << name_of(a); }

// With durability=process there is no sync that could fail.
inline std::vector<FaultCase> fault_cases(std::span<const Fault> faults) {
    std::vector<FaultCase> all;
    for (const Fault& fault : faults)
        for (const OnError on_error : {OnError::kFail, OnError::kRetry, OnError::kThrough})
            for (const Durability durability : {Durability::kProcess, Durability::kNode})
                for (const bool for_ever : {false, true})
                    if (fault.operation != io::Operation::kSync || durability == Durability::kNode)
                        all.push_back({fault, on_error, durability, for_ever});
    return all;
}

// Checks that an error names its file and the cause.
inline testing::AssertionResult names_file_and_cause(const Status& status, const Fault& fault) {
    for (const std::string& part : {std::string("run.h5"), std::generic_category().message(fault.sys_errno)})
        if (status.message().find(part) == std::string::npos)
            return testing::AssertionFailure() << "no '" << part << "' in: " << status.message();
    return testing::AssertionSuccess();
}

}   // namespace forebay::test
