-- name: log
select version(), @@global.log_bin, @@global.binlog_format;

-- name: master_status
show master status;

-- name: log_status
/*!80200 show binary log status */;

-- name: files
show binary logs;
