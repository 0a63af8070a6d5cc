-- The tables of a system that ran before, as mariadb-dump writes them; rows invented.
CREATE TABLE `Report` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `controller` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1;

INSERT INTO `Report` VALUES (25,'RefreshUserToken');

CREATE TABLE `Scheduler` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `schedule` varchar(255) DEFAULT NULL,
  `date_time` datetime DEFAULT NULL,
  `params` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL CHECK (json_valid(`params`)),
  `status` tinyint(1) DEFAULT 1,
  `stay_alive` tinyint(1) DEFAULT 0,
  `description` varchar(255) DEFAULT NULL,
  `report_id` int(11) DEFAULT NULL,
  `worker_id` int(11) DEFAULT NULL,
  `reminder_id` int(11) DEFAULT NULL,
  `user_id` int(11) DEFAULT NULL,
  `group_id` int(11) DEFAULT NULL,
  `language_id` int(11) DEFAULT NULL,
  PRIMARY KEY (`id`),
  KEY `report_id` (`report_id`),
  CONSTRAINT `Scheduler_ibfk_1` FOREIGN KEY (`report_id`) REFERENCES `Report` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1;

INSERT INTO `Scheduler` VALUES
  (16,'* * * * *',NULL,'{\"controller\": \"RefreshUserToken\"}',1,0,'d\'accord',25,NULL,NULL,7,NULL,1),
  (17,NULL,'2026-03-02 12:30:00','{}',1,0,NULL,NULL,3,NULL,7,NULL,NULL),
  (18,'0 8 * * *',NULL,NULL,0,0,NULL,NULL,NULL,4,NULL,2,NULL);

CREATE TABLE `SchedulerExecution` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT,
  `scheduler_id` int(10) unsigned DEFAULT NULL,
  `execution_key` varchar(255) DEFAULT NULL,
  `executed_at` datetime DEFAULT NULL,
  `container_id` varchar(255) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `scheduler_id_execution_key` (`scheduler_id`,`execution_key`),
  CONSTRAINT `SchedulerExecution_ibfk_1` FOREIGN KEY (`scheduler_id`) REFERENCES `Scheduler` (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=latin1;

INSERT INTO `SchedulerExecution` VALUES
  (1,16,'cron-2026-3-2-11-58','2026-03-02 11:58:03','web-1-4711'),
  (2,16,'cron-2026-3-2-11-59',NULL,'web-2-4712'),
  (3,16,'cron-2026-3-2-13-0','2026-03-02 12:00:01','web-1-4711'),
  (4,18,'cron-2026-3-1-8-0','2026-03-01 08:00:02',NULL);
