#pragma once

/// The whole public API.
#include <troupe/core/environment.hpp>
#include <troupe/core/error.hpp>
#include <troupe/core/production_ports.hpp>
#include <troupe/core/tensor.hpp>
#include <troupe/core/tracers.hpp>
#include <troupe/data/dataset.hpp>
#include <troupe/data/iterator.hpp>
#include <troupe/kernels/mlp.hpp>
#include <troupe/strategies/cluster_coordinator.hpp>
#include <troupe/strategies/cluster_resolver.hpp>
#include <troupe/strategies/cluster_spec.hpp>
#include <troupe/strategies/embedding.hpp>
#include <troupe/strategies/learning_rate.hpp>
#include <troupe/strategies/optimizer.hpp>
#include <troupe/strategies/parameter_server_strategy.hpp>
#include <troupe/strategies/partitioner.hpp>
#include <troupe/strategies/runtime.hpp>
#include <troupe/strategies/slicing.hpp>
#include <troupe/strategies/variable.hpp>
#include <troupe/strategies/worker_context.hpp>
#include <troupe/transport/asio_transport.hpp>
#include <troupe/transport/collective_group.hpp>
#include <troupe/transport/host_transport.hpp>
