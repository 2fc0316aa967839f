#pragma once

/// All messages, for what deals with every one of them: their type ids, and tools that read any.
/// Actors include the conversations that they take part in.
#include <troupe/messages/admission.hpp>
#include <troupe/messages/closures.hpp>
#include <troupe/messages/devices.hpp>
#include <troupe/messages/links.hpp>
#include <troupe/messages/membership.hpp>
#include <troupe/messages/message_header.hpp>
#include <troupe/messages/program.hpp>
#include <troupe/messages/replicas.hpp>
#include <troupe/messages/resources.hpp>
#include <troupe/messages/server_statistics.hpp>
#include <troupe/messages/settlement.hpp>
#include <troupe/messages/snapshots.hpp>
#include <troupe/messages/terms.hpp>
#include <troupe/messages/tick.hpp>
#include <troupe/messages/variables.hpp>
