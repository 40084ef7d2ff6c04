# What Sidekiq's workers are asked to do. Workers and the program load this alike, each with a server of its own: the first of PORTS.

require "sidekiq"
require "sidekiq/api"

URL = "redis://127.0.0.1:#{ENV.fetch("PORTS", "6379").split(",").first}/3"
NAME = ENV.fetch("NAME")
Sidekiq.configure_server { |config| config.redis = { url: URL }; config.options[:poll_interval_average] = 1 }
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.logger.level = Logger::ERROR

def note(key, word)
  Sidekiq.redis { |redis| redis.rpush("#{NAME}:#{key}", word) }
end

class Square
  include Sidekiq::Job
  sidekiq_options queue: NAME

  def perform(number)
    Sidekiq.redis { |redis| redis.hincrby("#{NAME}:squares", number, number * number) }
  end
end

class Late
  include Sidekiq::Job
  sidekiq_options queue: NAME

  def perform
    note("late", Time.now.to_f)
  end
end

class FailFirst
  include Sidekiq::Job
  sidekiq_options queue: NAME, retry: 5
  sidekiq_retry_in { 1 }

  def perform
    note("tries", "x")
    raise "not yet" if Sidekiq.redis { |redis| redis.llen("#{NAME}:tries") } < 2
    note("succeeded", "x")
  end
end

class Hopeless
  include Sidekiq::Job
  sidekiq_options queue: NAME, retry: 0

  def perform
    raise "never"
  end
end
