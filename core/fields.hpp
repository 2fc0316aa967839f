#pragma once

// A field list for each struct, from which both CAF's `inspect` and cereal's `serialize` come.
#include <cereal/cereal.hpp>

#include <troupe/core/field_lists.hpp>
