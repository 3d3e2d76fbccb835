// The implementation of Loop, for the parts of net that use Asio.
#pragma once

#include <functional>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "net/loop.h"

namespace lockstep::net {

struct Loop::Impl {
  boost::asio::io_context context{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      context.get_executor()};
  std::vector<std::unique_ptr<boost::asio::signal_set>> signals;
};

}  // namespace lockstep::net
