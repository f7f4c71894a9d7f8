-- A dump as mysqldump writes it, up to the first row.
/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;
/*!50503 SET NAMES utf8mb4 */;
/*!40103 SET TIME_ZONE='+00:00' */;

--
-- Table structure for table `agentscope_sessions`
--

DROP TABLE IF EXISTS `agentscope_sessions`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
CREATE TABLE `agentscope_sessions` (
  `session_id` varchar(255) COLLATE utf8mb4_unicode_ci NOT NULL,
  `state_data` json NOT NULL COMMENT 'all states, (nested); it''s one object',
  `created_at` timestamp NULL DEFAULT CURRENT_TIMESTAMP,
  `updated_at` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`session_id`),
  KEY `by_time` (`updated_at`,`session_id`(10))
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_unicode_ci;

--
-- Dumping data for table `agentscope_sessions`
--

LOCK TABLES `agentscope_sessions` WRITE;
/*!40000 ALTER TABLE `agentscope_sessions` DISABLE KEYS */;
INSERT INTO `other` VALUES (1,'; INSERT INTO `agentscope_sessions` VALUES (\'no\',\'{}\',1,1);');
