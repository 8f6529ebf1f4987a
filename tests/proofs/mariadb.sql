create table {name}.outbox (
    id char(36) primary key, aggregatetype varchar(255), aggregateid varchar(255), type varchar(255), payload text,
    created_at datetime(6) default current_timestamp(6)
);
create table {name}.other (id int auto_increment primary key, note text);
