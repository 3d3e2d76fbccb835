// Passwords as argon2id hashes. Each call takes 50 to 100 ms and 64 MiB: not for the loop's thread.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace lockstep::crypto {

inline constexpr std::size_t kPasswordMin = 8;
inline constexpr std::size_t kPasswordMax = 1024;  // bytes

// Code::invalid: too short or too long. The error does not quote the password.
Result<void> check_password(const std::string& password);

// "$argon2id$v=19$m=65536,t=2,p=1$...", with a new salt. Code::unavailable: there is no memory.
Result<std::string> hash_password(const std::string& password);
// False also for a text that is no hash.
bool is_password(const std::string& hash, const std::string& password);
// Takes as long as is_password(), for a user that has no password.
void spend_check(const std::string& password);

// 20 random letters and digits that look different from each other, about 100 bits.
std::string random_password();

}  // namespace lockstep::crypto
