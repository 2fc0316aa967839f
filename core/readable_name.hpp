#pragma once

#include <string>
#include <string_view>
#include <typeinfo>

/// Names for people, of what the compiler and the linker name for themselves. Any thread.
namespace troupe {

/// "float (std::string, int)".
std::string readable_name(const std::type_info& type);

/// A registered function as its author knows it: "train_step", "main::{lambda(worker_context&)#1}"
/// for a lambda, whose own name is the compiler's ("Z4mainEUlvE1_", and "#2" behind it when there
/// are two). A name that is none of the compiler's stays.
std::string readable_function(std::string_view registered);

/// "train_step(troupe::worker_context&)": what the program's own symbols call the function at this
/// address. Empty when they don't tell, as in a program without symbols. Reads the program's file:
/// for errors.
std::string function_at(const void* address);

} // namespace troupe
